"""Why a job waits, as text for people and as data for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from stromboli.api.timestamps import format_timestamp
from stromboli.grammar import plural
from stromboli.insight import JobExplanation, document

from .output import Answer, line_width, styled
from .short_amounts import age, all_listed, listed, some
from .whatif.counterfactuals import Counterfactual, Prospects

_WIDTH = 100
_LABEL = 12
_MOST_AHEAD = 5


def explanation_view(explanation: JobExplanation, prospects: Prospects | None, now: float) -> Answer:
    return Answer(_data(explanation, prospects), head=list(_lines(explanation, prospects, now)))


def not_forecast(problem: str) -> str:
    return f"These are the reasons in the status; forecasts need the whole cluster. {problem}"


def written_view(explanation: JobExplanation, now: float, problem: str) -> Answer:
    """Without a forecast, because this user may not read the whole cluster. `problem`: why, and what to do."""
    job = explanation.job
    lines: list[str] = [styled(_headline(explanation, now), bold=True)]
    if job.waits and not explanation.reasons:
        since = age(now - (now if job.waiting_since is None else job.waiting_since))
        lines = [styled(f"{job.name} has waited for {since}. The scheduler has not written a reason yet.", bold=True)]
    if job.waits:
        lines += [*reason_lines(explanation), ""]
        if explanation.next_step:
            lines += _paragraph("Next step", explanation.next_step)
        lines += _paragraph("Forecast", not_forecast(problem))
    data = {**document(explanation), "configuration": None, "forecast": not_forecast(problem)}
    return Answer(data, head=lines)


def _data(explanation: JobExplanation, prospects: Prospects | None) -> dict[str, Any]:
    data: dict[str, Any] = document(explanation)
    data["waitsFor"] = explanation.waits_for
    if prospects is not None:
        start = prospects.expected_start
        data["startsNow"] = prospects.starts_now
        data["expectedStart"] = None if start is None else format_timestamp(start)
        data["expectedAfter"] = prospects.after
        data["jobsWithoutEnd"] = prospects.without_end
        data["counterfactuals"] = [
            {"sentence": one.sentence, "evicts": one.evicts, "at": None if one.at is None else format_timestamp(one.at)}
            for one in prospects.counterfactuals
        ]
    return data


def _lines(explanation: JobExplanation, prospects: Prospects | None, now: float) -> Iterator[str]:
    job = explanation.job
    yield styled(_headline(explanation, now), bold=True)
    if not job.waits:
        return
    if explanation.reasons:
        yield from reason_lines(explanation)
        yield ""
        yield from _numbers(explanation)
        yield from _queue(explanation)
        yield from _kept(explanation)
        if explanation.next_step:
            yield from _paragraph("Next step", explanation.next_step)
    if prospects is not None:
        yield from _what_if(prospects, now, waits_for_others=bool(explanation.waits_for))


def reason_lines(explanation: JobExplanation) -> Iterator[str]:
    for reason in explanation.reasons:
        yield ""
        yield styled(reason.code, fg="yellow")
        yield from textwrap.wrap(
            reason.message, line_width(_WIDTH), initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )


def _headline(explanation: JobExplanation, now: float) -> str:
    job = explanation.job
    if not job.waits:
        where = f", {plural(job.pods.running, 'pod')} on {some(job.nodes)}" if job.nodes else ""
        resume = f" Continue it with: stromboli resume {job.name}" if job.phase == "Aborted" else ""
        return f"{job.name} does not wait: {job.phase}{where}.{resume}"
    since = age(now - (now if job.waiting_since is None else job.waiting_since))
    if not explanation.reasons:
        return f"{job.name} starts in the next cycle. It has waited for {since} in queue {job.queue}."
    pods = f"{plural(job.pods.waiting, 'pod')} waiting" if job.pods.total else "not admitted yet"
    running = f", {job.pods.running} running" if job.pods.running else ""
    return f"{job.name} has waited for {since} in queue {job.queue} ({pods}{running})"


def _numbers(explanation: JobExplanation) -> Iterator[str]:
    one = explanation
    if one.needs:
        yield from _paragraph("Needs", f"{_pods_needed(one)}: {listed(one.needs)}{_each(one)}")
        yield from _paragraph("Free", f"{all_listed(one.free)}; at most {all_listed(one.largest)} on one node")
    if one.pods_that_fit is not None:
        yield _row("Fit now", f"{one.pods_that_fit} of {one.pods_counted}")
        counts = [f"{count.nodes} {count.phrase}" for count in one.node_counts]
        yield from _paragraph("Nodes", "; ".join([f"{one.available} of {one.nodes} available", *counts]))


def _pods_needed(explanation: JobExplanation) -> str:
    needed, counted = explanation.pods_needed, explanation.pods_counted
    if counted == needed:
        return f"{needed} pods together" if needed > 1 else "1 pod"
    return f"{needed} pods together, of which {counted} can be scheduled now"


def _each(explanation: JobExplanation) -> str:
    """Where all of them request the same."""
    each, counted = explanation.each, explanation.pods_counted
    if counted < 2 or {name: amount * counted for name, amount in each.items()} != explanation.needs:
        return ""
    return f" ({listed(each)} each)"


def _queue(explanation: JobExplanation) -> Iterator[str]:
    if explanation.position:
        place = f"{explanation.position} of {explanation.queue_length} that wait in queue {explanation.job.queue}"
        yield _row("Position", place)
    for number, ahead in enumerate(explanation.ahead[:_MOST_AHEAD]):
        yield from _paragraph("Ahead" if number == 0 else "", f"{ahead.job} ({ahead.because})")
    rest = len(explanation.ahead) - _MOST_AHEAD
    if rest > 0:
        yield _row("", f"and {rest} more")


def _kept(explanation: JobExplanation) -> Iterator[str]:
    for number, kept in enumerate(explanation.kept):
        missing = f", {listed(kept.missing)} missing" if kept.missing else ", free"
        waits = f", waits for {some(kept.waits_for)}" if kept.waits_for else ""
        yield from _paragraph("Kept" if number == 0 else "", f"{kept.node} ({kept.how}{missing}{waits})")


def _what_if(prospects: Prospects, now: float, *, waits_for_others: bool) -> Iterator[str]:
    yield ""
    if prospects.starts_now:
        assert prospects.expected_start is not None
        yield _row("Expected", f"starts at {_moment(prospects.expected_start, now)}; no change is needed")
        return
    if prospects.expected_start is not None:
        after = f", when {some(prospects.after)} ends" if prospects.after else ""
        yield from _paragraph("Expected", f"starts about {_moment(prospects.expected_start, now)}{after}")
    else:
        yield from _paragraph("Expected", f"no start is in sight{_why_no_start(prospects, waits_for_others)}")
    if prospects.counterfactuals:
        yield ""
        yield "Tried on a copy of the cluster:"
        for one in prospects.counterfactuals:
            yield f"  {_sentence(one, now)}"
    else:
        yield from _paragraph("", "No single change that was tried on a copy of the cluster starts it now.")


def _why_no_start(prospects: Prospects, waits_for_others: bool) -> str:
    """Running jobs without an end are the cause only where their end would help."""
    ends_help = waits_for_others or any(one.is_an_end for one in prospects.counterfactuals)
    if not prospects.without_end or not ends_help:
        return ""
    if prospects.without_end == 1:
        return ": one running job does not say how long it runs"
    return f": {prospects.without_end} running jobs do not say how long they run"


def _sentence(one: Counterfactual, now: float) -> str:
    when = f", about {_moment(one.at, now)}" if one.at is not None else ""
    evicts = f" (evicts {some(one.evicts)})" if one.evicts else ""
    return f"{one.sentence}{when}{evicts}"


def _moment(at: float, now: float) -> str:
    """The clock, and how long until then."""
    return f"{format_timestamp(at)} (in {age(at - now)})"


def _row(label: str, text: str) -> str:
    return f"{label:<{_LABEL}}{text}"


def _paragraph(label: str, text: str) -> Iterator[str]:
    """The text beside its label."""
    lines = textwrap.wrap(text, line_width(_WIDTH) - _LABEL, break_long_words=False, break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        yield _row(label if number == 0 else "", line)
