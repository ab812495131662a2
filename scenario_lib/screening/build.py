"""Build a library: measure candidates in parallel, choose afterwards in seed order, publish all or nothing."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from scenario_lib.execution.cluster import require_usable
from scenario_lib.execution.tasks import Outcome, RunOptions, run_tasks
from scenario_lib.library.publish import publish
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.writer import NewLibrary, write_library
from scenario_lib.screening.build_log import BuildLog
from scenario_lib.screening.criteria import FAILED, Reason, ScreeningCriteria
from scenario_lib.screening.journal import Journal, JournalLine
from scenario_lib.screening.measure import Candidate, Measured, MeasurePlan, StageFailure, measure_candidate
from scenario_lib.screening.provenance import plan_record, recipe_of
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.screening.rows import candidate_row, new_record
from scenario_lib.screening.select import Chosen, Selection, select
from scenario_lib.screening.travel import REPLICATED, Measuring
from scenario_lib.screening.workspace import Workspace
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.engines import REFERENCE, Engine, prepare
from scenario_lib.simulation.feeder_check import check_feeder

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a build is.

    Attributes:
        total: Candidates in all, or the number to accept.
        done: Of these.
        accepted: Accepted so far.
    """

    total: int
    done: int
    accepted: int


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build did.

    Attributes:
        path: Where the library is.
        chosen: All rows of the candidates table, in seed order.
        target_missed: Fewer were accepted than asked for.
        notice: Why the reference engine was taken though the compiled one was asked for; None if it was not.
        kept_existing: Nothing was accepted, so the library that was there stayed, and `path` is beside it.
    """

    path: Path
    chosen: list[Chosen]
    target_missed: bool
    kept_existing: bool
    notice: str | None
    log: BuildLog

    @property
    def accepted(self) -> list[Chosen]:
        return [chosen for chosen in self.chosen if chosen.accepted]

    @property
    def failed(self) -> list[Chosen]:
        return [chosen for chosen in self.chosen if chosen.reason in FAILED]


ProgressHook = Callable[[Progress], None]


def build_library(
    plan: MeasurePlan, request: CandidateRequest, options: BuildOptions, on_progress: ProgressHook = lambda _: None
) -> BuildResult:
    """Build and publish a library.

    Raises:
        MissingExtraError, ClusterError: The cluster cannot be used; nothing was started. Or it is gone: what is
            finished stays in the journal.
        BuildRefusedError: The target exists, another build runs, the disk is too small, or the journal differs.
        MissingDataError, DataFileError: Data are missing or do not fit; nothing was started.
        KeyboardInterrupt: Interrupted; what is finished stays in the journal.
    """
    workspace = Workspace(options.out)
    with workspace.claimed():
        workspace.require_free(options, request.most_candidates)
        check_feeder(plan.experiment)
        if options.cluster is not None:
            require_usable(options.cluster, REPLICATED)
        plan, notice = _with_engine(plan)
        recipe = recipe_of(plan)
        record = plan_record(plan, recipe)
        lines = _open_journal(workspace.journal, record, options)
        log = BuildLog(jobs=options.jobs, resumed=len(lines))
        _measure(plan, request, options, _State(workspace.journal, lines, request, plan.criteria, on_progress))
        log.seconds_by_seed = {seed: line.seconds for seed, line in lines.items()}
        wanted = [lines[seed].measured for seed in request.seed_order() if seed in lines]
        chosen = select(wanted, plan.criteria, request.accept)
        library = _assemble(plan, recipe, record["versions"], chosen, lines)
        path = _write(workspace, library, log)
        workspace.journal.discard()
    return BuildResult(
        path=path,
        chosen=chosen,
        target_missed=request.accept is not None and len(library.records) < request.accept,
        kept_existing=path != workspace.target,
        notice=notice,
        log=log,
    )


def _assemble(
    plan: MeasurePlan,
    recipe: Recipe,
    versions: dict[str, str],
    chosen: list[Chosen],
    lines: dict[int, JournalLine],
) -> NewLibrary:
    accepted = [choice for choice in chosen if choice.accepted]
    return NewLibrary(
        recipes=(recipe,),
        records=tuple(new_record(choice, lines[choice.measured.seed], plan, recipe.id) for choice in accepted),
        candidates=[candidate_row(choice, plan, recipe.id) for choice in chosen],
        screening=plan.criteria.to_dict(),
        versions=versions,
        reproducible=not any(choice.reason in (Reason.TIMEOUT, Reason.WORKER_DIED) for choice in chosen),
    )


def _write(workspace: Workspace, library: NewLibrary, log: BuildLog) -> Path:
    """Write the library beside its place and put it there; returns where it landed."""
    folder = workspace.empty_finished()
    traces = (workspace.journal.traces(record.fields.seed) for record in library.records)
    write_library(folder, library, traces)
    log.write(folder)
    return _publish(workspace, folder, bool(library.records))


def _with_engine(plan: MeasurePlan) -> tuple[MeasurePlan, str | None]:
    """The plan with an engine that models its experiment, and a notice if that is not the one asked for."""
    what = prepare(plan.experiment, load_assets(plan.experiment, plan.specs_dir), plan.engine)
    if what is None:
        return plan, None
    notice = f"the compiled engine does not model {what}; the reference engine was used"
    logger.warning("%s: %s", plan.experiment.name, notice)
    return replace(plan, engine=Engine(REFERENCE)), notice


def _open_journal(journal: Journal, record: dict[str, object], options: BuildOptions) -> dict[int, JournalLine]:
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


class _State:
    """What is finished so far, and whether it is enough."""

    def __init__(
        self,
        journal: Journal,
        lines: dict[int, JournalLine],
        request: CandidateRequest,
        criteria: ScreeningCriteria,
        on_progress: ProgressHook,
    ) -> None:
        self._journal = journal
        self._lines = lines
        self._request = request
        self._on_progress = on_progress
        self._selection = Selection(criteria)
        self._seeds = deque(request.seed_order())
        self._advance()

    @property
    def _enough(self) -> bool:
        return self._request.accept is not None and self._selection.accepted >= self._request.accept

    def waiting(self) -> Iterator[int]:
        """Seeds still to be measured, as long as more are needed."""
        for seed in self._request.seed_order():
            if self._enough:
                return
            if seed not in self._lines:
                yield seed

    def finish(self, outcome: Outcome[int, Candidate]) -> None:
        """Write down one more candidate."""
        candidate = outcome.result or _failed(outcome)
        self._lines[outcome.task] = self._journal.append(candidate, outcome.seconds)
        self._advance()

    def _advance(self) -> None:
        """Move the finished beginning of the seed order forward; only it decides whether enough are accepted."""
        while self._seeds and self._seeds[0] in self._lines:
            self._selection.add(self._lines[self._seeds.popleft()].measured)
        accepted = self._selection.accepted
        if self._request.accept is None:
            self._on_progress(Progress(self._request.most_candidates, len(self._lines), accepted))
        else:
            self._on_progress(Progress(self._request.accept, min(accepted, self._request.accept), accepted))


def _measure(plan: MeasurePlan, request: CandidateRequest, options: BuildOptions, state: _State) -> None:
    jobs = min(options.jobs, request.most_candidates)
    run = RunOptions(jobs=jobs, timeout_s=options.timeout_s, cluster=options.cluster)
    for outcome in run_tasks(Measuring(plan, measure_candidate), state.waiting(), run):
        state.finish(outcome)


def _failed(outcome: Outcome[int, Candidate]) -> Candidate:
    failure = outcome.failure
    if failure is None:
        raise LookupError(f"seed {outcome.task} has neither a result nor a failure")
    return Candidate(
        Measured(outcome.task, failure=StageFailure(Reason(failure.code), "worker", None, failure.message)), None
    )
