"""The sentences that users rely on word for word. Tests compare with these, so a rewording changes this file alone.

All other tests assert the facts of a message (file, line, key, value, what to write instead), never its wording.
"""

# config, schemes, data, records, model, training

# storage, execution, runner, commands, terminal

# analysis, plots, report, claims, texts
