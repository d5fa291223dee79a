"""The sentences that users rely on word for word. Tests compare with these, so a rewording changes this file alone.

All other tests assert the facts of a message (file, line, key, value, what to write instead), never its wording.
"""

# config, schemes, data, records, model, training

# storage, execution, runner, commands, terminal

BEGIN = "4 done (1 from other sweeps), 4 to do"
FINISHED = "[1/4] position pre, lr 0.001: learned: loss 1.900, 0:04"
NOTHING_TO_DO = "4 done, nothing to do"
FAILED = "0 done, 3 failed (--retry-failed reruns them), nothing to do"
HEARTBEAT = "0 of 4 finished, 2 running"
STOPPED = "stopped by SIGINT: 1 done, 3 to do; the same command continues"
FULL_OUTPUT = "normexp: cannot write to standard output: No space left on device\n"
BIT_IDENTICAL = "bit-identical over 100 steps"

# analysis, plots, report, claims, texts
