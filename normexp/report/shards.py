"""Messages about sweeps that run in shards."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from normexp.config import plugins
from normexp.config.labels import listed, plural
from normexp.config.plan import Plan, Shard, of_run
from normexp.errors import at_most

NAMED_RUNS = 5


def share(plan: Plan) -> str:
    """Return the size of a shard: `shard 2 of 4: 10 of these runs`."""
    return f"{plan.shard}: {len(plan.configs)} of these runs"


def join_hint(plan: Plan, beside: Path) -> str:
    """Return how much of the sweep a shard covers, and the command that merges all shards from the folder `beside`."""
    assert plan.whole is not None
    assert plan.shard is not None
    runs = f"{len(plan.configs)} of {plural(len(plan.whole.configs), 'run')}"
    folders = f"{shlex.quote(str(beside / plan.whole.folder))}.shard-*-of-{plan.shard.count}"
    command = f"`normexp merge {folders}{plugins.options()}`"
    return f"This is {plan.shard} of {plan.name}, {runs}; to join all shards, run {command}."


def missing(whole: Plan, ended: Collection[str], merged: Sequence[Plan]) -> list[str]:
    """Return lines on the runs of the whole sweep that the merged plans lack, and the commands that run them."""
    lacking = [run_id for run_id in whole.configs if run_id not in ended]
    if not lacking:
        return []
    head = f"{len(lacking)} of {plural(len(whole.configs), 'run')} {'is' if len(lacking) == 1 else 'are'} missing"
    counts = {plan.shard.count for plan in merged if plan.shard is not None}
    commands = [plan.argv for plan in merged if plan.argv[1:2] == ("sweep",)]
    argv = commands[0] if commands else ("normexp", "sweep", "CONFIG")
    if len(counts) != 1:
        named = listed(at_most(lacking, NAMED_RUNS, "{} more"))
        return [f"{head}: {named}: run `{_command(argv)}`, then merge again"]
    merged_shards = {plan.shard for plan in merged}
    lines = [f"{head}:"]
    for shard, runs in sorted(_by_shard(lacking, counts.pop()).items(), key=lambda item: item[0].number):
        reason = "has not ended" if shard in merged_shards else "has not been merged"
        lines.append(f"  {shard} {reason} ({plural(runs, 'run')}): run `{_command(argv, shard)}`")
    return [*lines, "then merge again"]


def _by_shard(run_ids: Iterable[str], count: int) -> Counter[Shard]:
    return Counter(of_run(run_id, count) for run_id in run_ids)


def _command(argv: Sequence[str], shard: Shard | None = None) -> str:
    """Return a stored command as typed, for the whole sweep or for one shard."""
    words = list(argv[1:])
    if "--shard" in words:
        index = words.index("--shard")
        del words[index : index + 2]
    words = [word for word in words if not word.startswith("--shard=") and word != "--force"]
    return shlex.join(["normexp", *words, *(["--shard", shard.option] if shard else [])])
