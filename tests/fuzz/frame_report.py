"""A run of frames as a table for people and as JSON for programs."""

import json
from typing import Any

from tests.fuzz.frame_run import FrameRun
from tests.fuzz.measures import Worst


def table(run: FrameRun) -> str:
    """Return one line for each API, and the worst cases."""
    lines = [f"{'API':<34}{'versions':>9}{'frames':>10}{'decoded':>9}{'looks':>10}  refused"]
    for name, tally in sorted(run.tallies.items()):
        refused = ", ".join(f"{kind} {count}" for kind, count in sorted(tally.refused.items()))
        share = f"{tally.decoded / tally.frames:.0%}"
        lines.append(
            f"{name:<34}{len(tally.versions):>9}{tally.frames:>10}{share:>9}{tally.looks:>10}"
            f"  {refused}"
        )
    pace = run.frames / max(run.seconds, 1e-9)
    lines += [
        f"{run.frames} frames in {run.seconds:.0f} s ({pace:.0f}/s), {run.decoded} decoded",
        f"memory of {run.measured} measured, RSS grew by {run.rss_growth / 2**20:.0f} MiB",
        f"most memory per byte of a large frame, beyond 1 MiB: {_text(run.ratio)}",
        f"most memory for one step: {_text(run.peak)} bytes",
        f"most time per byte: {_text(run.pace)} ns; for one step: {_text(run.longest)} ns",
        f"findings: {len(run.findings)}",
    ]
    return "\n".join(lines)


def as_json(run: FrameRun, plan: dict[str, Any]) -> str:
    """Return the run in one JSON object."""
    apis = {
        name: {
            "versions": sorted(tally.versions),
            "frames": tally.frames,
            "decoded": tally.decoded,
            "looks": tally.looks,
            "refused": tally.refused,
        }
        for name, tally in sorted(run.tallies.items())
    }
    worst = {
        name: {"value": getattr(run, name).value, "what": getattr(run, name).what}
        for name in ("ratio", "peak", "pace", "longest")
    }
    return json.dumps(
        {
            "plan": plan,
            "frames": run.frames,
            "decoded": run.decoded,
            "measured": run.measured,
            "seconds": round(run.seconds, 1),
            "rss_growth_bytes": run.rss_growth,
            "findings": run.findings,
            "worst": worst,
            "apis": apis,
        }
    )


def _text(worst: Worst) -> str:
    return f"{worst.value:.1f} ({worst.what})"
