"""Build a library: measure candidates in parallel, judge them afterwards in seed order, publish all or nothing.

Candidates can be measured on machines that have none of our files: `MeasureTask` says which ones it reads, and finds
them there. Progress is told over all strata of a build.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scenario_lib._arrays import Floats
from scenario_lib._values import instance_of, refused
from scenario_lib.execution.task_bundle import SharedFile
from scenario_lib.execution.tasks import TaskOutcome, require_usable, run_tasks
from scenario_lib.library.place import publish
from scenario_lib.library.provenance import distributions
from scenario_lib.library.writer import NewLibrary, write_library
from scenario_lib.screening.build_record import (
    NO_EARLIER_RESULTS,
    BuildLog,
    EarlierResults,
    build_record,
    library_of_strata,
    recipe_of,
)
from scenario_lib.screening.candidate import (
    Candidate,
    MeasuredCandidate,
    MeasurePlan,
    StageFailure,
    measure_candidate,
)
from scenario_lib.screening.criteria import FAILED, Reason
from scenario_lib.screening.journal import Journal, Workspace
from scenario_lib.screening.portable import RolloutFiles
from scenario_lib.screening.request import BuildOptions, CandidateRequest, holds
from scenario_lib.screening.select import Selection, Stratum, plan_stratum, require_disjoint, select
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import REFERENCE, Engine, prepare
from scenario_lib.simulation.opendss.check import check_feeder


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build is.

    Attributes:
        total: Candidates in all, or the number to accept.
        done: Of these.
        accepted: Accepted so far.
    """

    total: int
    done: int
    accepted: int


ProgressHook = Callable[[BuildProgress], None]


class _Tally:
    """Progress over all strata, of which one is under way."""

    def __init__(self, on_progress: ProgressHook, strata: Sequence[Stratum]) -> None:
        self._on_progress = on_progress
        self._total = sum(_size(stratum.request) for stratum in strata)
        self._now = self._before = BuildProgress(self._total, 0, 0)

    @property
    def accepted(self) -> int:
        """Accepted so far."""
        return self._now.accepted

    def begin_stratum(self) -> None:
        """What is reached now stays, and the next stratum adds to it."""
        self._before = self._now

    def show(self, done: int, accepted: int) -> None:
        """How far the stratum under way is."""
        self._now = BuildProgress(self._total, self._before.done + done, self._before.accepted + accepted)
        self._on_progress(self._now)


def _size(request: CandidateRequest) -> int:
    return request.goal.total or request.most_candidates


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """Seed in, candidate out: `measure` under a plan, here or, with the files of the plan, elsewhere."""

    plan: MeasurePlan
    measure: Callable[[MeasurePlan, int], MeasuredCandidate] = measure_candidate

    def __call__(self, seed: int) -> MeasuredCandidate:
        return self.measure(self.plan, seed)

    def packed(self) -> "tuple[MeasureTask, tuple[SharedFile, ...]]":
        """The same with relative paths, and the files of the circuit and the spec cache.

        Raises:
            DataFileError: The circuit names a file by its absolute path, which only this machine has.
        """
        moved, files = self._files.packed()
        return self._with(moved), files

    def distributions(self) -> tuple[str, ...]:
        """Of what computes the figures."""
        return distributions()

    def at(self, folder: Path) -> "MeasureTask":
        """The same with circuit and spec cache where they were unpacked."""
        return self._with(self._files.at(folder))

    def prepare(self) -> None:
        """Compile the circuit, and the engine's kernels, once a machine."""
        self._files.prepare([self.plan.engine])

    @property
    def _files(self) -> RolloutFiles:
        return RolloutFiles({"": self.plan.experiment}, self.plan.specs_dir)

    def _with(self, files: RolloutFiles) -> "MeasureTask":
        return replace(self, plan=replace(self.plan, experiment=files.experiments[""], specs_dir=files.specs_dir))


__all__ = ["BuildProgress", "BuildResult", "ProgressHook", "build_library", "build_strata"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class BuildResult:
    """What a build did.

    Attributes:
        path: Where the library is.
        strata: With the verdicts on their candidates.
        notice: Why the reference engine was taken though the compiled one was asked for; None if it was not.
        kept_existing: Nothing was accepted, so the library that was there stayed, and `path` is beside it.
    """

    path: Path
    strata: list[Stratum]
    kept_existing: bool
    notice: str | None
    log: BuildLog

    def __repr__(self) -> str:
        return f"BuildResult({str(self.path)!r}: {len(self.accepted)} accepted of {len(self.candidates)} candidates)"

    @property
    def candidates(self) -> list[Candidate]:
        """All of the candidates table, with their verdicts, in seed order."""
        every = (candidate for stratum in self.strata for candidate in stratum.candidates)
        return sorted(every, key=lambda candidate: candidate.seed)

    @property
    def shortfalls(self) -> list[str]:
        """Where fewer were accepted than asked for, such as "evening: 40 of 50 mixed"."""
        return [text for stratum in self.strata for text in stratum.shortfalls]

    @property
    def target_missed(self) -> bool:
        """Fewer were accepted than asked for."""
        return bool(self.shortfalls)

    @property
    def accepted(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.accepted]

    @property
    def failed(self) -> list[Candidate]:
        return [candidate for candidate in self.candidates if candidate.reason in FAILED]


def build_library(
    plan: MeasurePlan, request: CandidateRequest, options: BuildOptions, on_progress: ProgressHook = lambda _: None
) -> BuildResult:
    """Build and publish a library of one recipe; see `build_strata`.

    Raises:
        InvalidSettingError: An argument of another type; nothing was started.
    """
    instance_of(MeasurePlan)("plan", plan)
    instance_of(CandidateRequest)("request", request)
    instance_of(BuildOptions)("options", options)
    if not callable(on_progress):
        raise refused("on_progress", on_progress, "a function of the progress")
    return build_strata((plan_stratum(plan, request),), options, on_progress)


def build_strata(
    strata: Sequence[Stratum],
    options: BuildOptions,
    on_progress: ProgressHook = lambda _: None,
    earlier: EarlierResults = NO_EARLIER_RESULTS,
) -> BuildResult:
    """Build and publish one library, stratum by stratum.

    Args:
        strata: What is built; strata share no seed.
        options: Where to, and how it runs.
        on_progress: Called as candidates finish.
        earlier: Candidates that need not be measured again.

    Raises:
        MissingExtraError, ClusterError: The cluster cannot be used; nothing was started. Or it is gone: what is
            finished stays in the journal.
        BuildRefusedError: The target exists, another build runs, the disk is too small, or the journal differs.
        UnwritableFileError: The disk filled up; what is finished stays in the journal.
        InvalidSettingError: Two strata share a seed or a name.
        MissingDataError, DataFileError: Data are missing or do not fit; nothing was started.
        KeyboardInterrupt: Interrupted; what is finished stays in the journal.
    """
    require_disjoint(strata)
    workspace = Workspace(options.out)
    with workspace.claimed():
        workspace.require_free(options, [stratum.request for stratum in strata])
        if options.cluster is not None:
            require_usable(options.cluster, distributions())
        strata, notice = _ready(strata)
        record = build_record(strata)
        resumed = _open_journal(workspace.journal, record, options)
        logger.debug("%s: %d workers on engine %s", options.out, options.jobs, strata[0].plan.engine.label)
        log = BuildLog(jobs=options.jobs, resumed=len(resumed))
        finished = {**earlier.candidates, **resumed}
        running = _Running(workspace, finished, earlier, options, _Tally(on_progress, strata), log.by_worker)
        with workspace.resumable():
            strata = [replace(stratum, candidates=running.screen(stratum)) for stratum in strata]
            log.seconds_by_seed = running.seconds_by_seed()
            library = library_of_strata(strata, record["versions"])
            path = _write(workspace, library, log, running.traces)
        workspace.journal.discard()
        logger.debug("%s: published with %d records", path, len(library.records))
    return BuildResult(
        path=path,
        strata=strata,
        kept_existing=path != workspace.target,
        notice=notice,
        log=log,
    )


def _write(
    workspace: Workspace, library: NewLibrary, log: BuildLog, traces_of: Callable[[int], tuple[Floats, Floats]]
) -> Path:
    """Write the library beside its place and put it there; returns where it landed."""
    folder = workspace.empty_finished()
    write_library(folder, library, (traces_of(record.seed) for record in library.records))
    log.write(folder)
    return _publish(workspace, folder, bool(library.records))


def _ready(strata: Sequence[Stratum]) -> tuple[list[Stratum], str | None]:
    """The strata with engines that model their experiments and digests of their data, and a notice if an engine is
    not the one asked for.
    """
    ready: list[Stratum] = []
    notices = []
    for stratum in strata:
        check_feeder(stratum.plan.experiment)
        plan, notice = _with_engine(_anchored(stratum.plan))
        ready.append(replace(stratum, plan=plan))
        notices.append(notice)
    ready = [replace(stratum, recipe=recipe_of(stratum.plan, stratum.name)) for stratum in ready]
    return ready, next(filter(None, notices), None)


def _anchored(plan: MeasurePlan) -> MeasurePlan:
    """The plan with absolute paths: workers that start later may find the process in another folder."""
    return plan if plan.specs_dir is None else replace(plan, specs_dir=plan.specs_dir.resolve())


def _with_engine(plan: MeasurePlan) -> tuple[MeasurePlan, str | None]:
    """The plan with an engine that models its experiment, and a notice if that is not the one asked for."""
    what = prepare(plan.experiment, load_assets(plan.experiment, plan.specs_dir), plan.engine)
    if what is None:
        return plan, None
    notice = f"the compiled engine does not model {what}; the reference engine was used"
    logger.warning("%s: %s", plan.experiment.name, notice)
    return replace(plan, engine=Engine(REFERENCE)), notice


def _open_journal(journal: Journal, record: dict[str, object], options: BuildOptions) -> dict[int, Candidate]:
    if options.resume and journal.exists:
        return journal.resume(record)
    journal.start(record)
    return {}


def _publish(workspace: Workspace, folder: Path, accepted_any: bool) -> Path:
    """Put the library in its place; an empty one never replaces one that is not, but lands beside it."""
    if accepted_any or not workspace.target.exists():
        publish(folder, workspace.target)
        return workspace.target
    publish(folder, workspace.beside)
    return workspace.beside


@dataclass(frozen=True, slots=True)
class _Running:
    """What the strata of a build share while candidates are measured."""

    workspace: Workspace
    finished: dict[int, Candidate]
    earlier: EarlierResults
    options: BuildOptions
    tally: _Tally
    by_worker: dict[str, int]

    def screen(self, stratum: Stratum) -> tuple[Candidate, ...]:
        """Measure what is still needed of a stratum, and judge."""
        self.tally.begin_stratum()
        while True:
            _measure(stratum, self.options, _State(self, stratum))
            seeds = stratum.request.seed_order()
            wanted = [candidate for seed, candidate in self.finished.items() if holds(seeds, seed)]
            judged = select(wanted, stratum.plan.criteria, stratum.request.goal)
            # Only earlier candidates may come without traces; those that are accepted are measured after all.
            untraced = [each.seed for each in judged if each.accepted and each.trace_digests is None]
            if not untraced:
                return tuple(judged)
            for seed in untraced:
                del self.finished[seed]

    def keep(self, measured: MeasuredCandidate, seconds: float) -> None:
        """Write down a finished candidate, and see that there is room for the library."""
        candidate, traces = measured
        self.finished[candidate.seed] = self.workspace.journal.append(candidate, traces, seconds)
        self.workspace.require_room(len(self.finished), self.tally.accepted)

    def traces(self, seed: int) -> tuple[Floats, Floats]:
        """The (baseline, OFO) penalty traces of an accepted candidate."""
        return self.earlier.traces(seed) if self._is_earlier(seed) else self.workspace.journal.traces(seed)

    def seconds_by_seed(self) -> dict[int, float]:
        """How long each candidate took that was measured for this build (s)."""
        return {seed: each.seconds for seed, each in self.finished.items() if not self._is_earlier(seed)}

    def _is_earlier(self, seed: int) -> bool:
        return self.finished[seed] is self.earlier.candidates.get(seed)


class _State:
    """What is finished so far of one stratum, and whether it is enough."""

    def __init__(self, running: _Running, stratum: Stratum) -> None:
        self._running = running
        self._measured = running.finished
        self._request = stratum.request
        self._selection = Selection(stratum.plan.criteria, stratum.request.goal)
        self._seeds = stratum.request.seed_order()
        self._next = 0
        self._finished = sum(holds(self._seeds, seed) for seed in self._measured)
        self._advance()

    def waiting(self) -> Iterator[int]:
        """Seeds still to be measured, as long as more are needed."""
        for seed in self._seeds:
            if self._selection.enough:
                return
            if seed not in self._measured:
                yield seed

    def finish(self, outcome: TaskOutcome[int, MeasuredCandidate]) -> None:
        """Write down one more candidate."""
        self._finished += 1
        if outcome.worker:
            self._running.by_worker[outcome.worker] = self._running.by_worker.get(outcome.worker, 0) + 1
        self._running.keep(outcome.result or (_failed(outcome), None), outcome.seconds)
        self._advance()

    def _advance(self) -> None:
        """Move the finished beginning of the seed order forward; only it decides whether enough are accepted."""
        while self._next < len(self._seeds) and self._seeds[self._next] in self._measured:
            self._selection.judge(self._measured[self._seeds[self._next]])
            self._next += 1
        accepted, total = self._selection.accepted, self._request.goal.total
        # Seeds beyond the last one needed may have been under way; they count for nothing.
        accepted = accepted if total is None else min(accepted, total)
        self._running.tally.show(self._finished if total is None else accepted, accepted)


def _measure(stratum: Stratum, options: BuildOptions, state: _State) -> None:
    run = options.run(most_jobs=stratum.request.most_candidates)
    for outcome in run_tasks(MeasureTask(stratum.plan, measure_candidate), state.waiting(), run):
        state.finish(outcome)


def _failed(outcome: TaskOutcome[int, MeasuredCandidate]) -> Candidate:
    failure = outcome.failure
    if failure is None:
        raise LookupError(f"seed {outcome.task} has neither a result nor a failure")
    return Candidate(outcome.task, failure=StageFailure(Reason(failure.code), "worker", None, failure.message))
