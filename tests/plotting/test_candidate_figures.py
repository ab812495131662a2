"""Pictures of candidates: numbers on the axes are those of the table."""

from dataclasses import replace

import numpy as np
import pytest
from candidate_samples import sample_columns
from matplotlib.colors import to_hex

from scenario_lib.analysis.draws import Draws
from scenario_lib.plotting.candidates import LOWEST_RECOVERY, plot_difficulty, plot_draws, plot_verdicts, plot_windows
from scenario_lib.plotting.comparison import plot_acceptance, plot_distributions
from scenario_lib.plotting.panels import KINDS, svg_bytes


def labels(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_bars_of_verdicts_count_kinds_and_reasons() -> None:
    axes = plot_verdicts(sample_columns()).axes[0]
    assert [patch.get_width() for patch in axes.patches] == [3, 1, 3]
    assert labels(axes) == ["accepted, under", "accepted, over", "rejected"]
    assert [text.get_text() for text in axes.texts] == [" 4", " 3"]


def test_a_library_that_accepted_nothing_can_be_drawn() -> None:
    columns = sample_columns(0, 3)
    assert labels(plot_verdicts(columns).axes[0]) == ["rejected"]
    assert plot_difficulty(columns, {}).axes[0].get_xscale() == "log"
    assert plot_windows(columns).axes[0].patches[:] == []


def test_the_map_of_difficulty_fills_the_accepted_and_clips_the_hopeless() -> None:
    axes = plot_difficulty(sample_columns(), {"min_recovery_frac": 0.7, "min_baseline_integral": 0.2}).axes[0]
    by_label = {collection.get_label(): collection for collection in axes.collections}
    assert list(by_label) == ["under, rejected", "under, accepted", "over, accepted"]
    assert by_label["under, rejected"].get_facecolor().size == 0
    assert to_hex(by_label["over, accepted"].get_facecolor()[0]) == KINDS["over"].colour
    assert np.allclose(by_label["under, rejected"].get_offsets()[:, 1], LOWEST_RECOVERY)
    assert "OFO not simulated" in labels(axes)
    assert axes.get_ylim()[0] < LOWEST_RECOVERY


def test_large_tables_are_drawn_as_an_image() -> None:
    few, many = (plot_difficulty(sample_columns(n, 0), {}).axes[0].collections[0] for n in (10, 3000))
    assert not few.get_rasterized()
    assert many.get_rasterized()


def test_windows_count_lengths_and_cover_seconds() -> None:
    columns = sample_columns()
    columns = replace(columns, window_start_s=np.array([0, 600, 600, 600, 0, 0, 0.0]))
    lengths, coverage = plot_windows(columns).axes
    assert [patch.get_height() for patch in lengths.patches if patch.get_height()] == [3, 1]
    covered = coverage.collections[0].get_paths()[0].vertices
    assert covered[:, 1].max() == 1.0
    assert covered[covered[:, 0] < 590][:, 1].max() == 0.25


def test_distributions_of_draws_say_what_differs() -> None:
    rng = np.random.default_rng(0)
    accepted = np.arange(400) % 2 == 0
    values = {
        "same": rng.random(400),
        "shifted": rng.random(400) + accepted,
        "constant": np.ones(400),
        "few": np.where(accepted, 1.0, np.nan) + (np.arange(400) % 4 == 0),
    }
    figure = plot_draws(Draws(accepted, values, 0, 400))
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.axison]
    assert [title.splitlines()[0] for title in titles] == ["same", "shifted", "few"]
    assert "differs" not in titles[0]
    assert titles[1].endswith("differs")
    assert titles[1].splitlines()[1].startswith("gap 1.00")
    shares = figure.axes[0].patches[0].get_data().values
    assert shares.sum() == pytest.approx(1.0)


def test_a_month_of_nights_with_long_names_fits() -> None:
    libraries = {f"{night:02} {'n' * 100}": sample_columns() for night in range(30)}
    for figure in (plot_acceptance(libraries), plot_distributions(libraries)):
        svg_bytes(figure)
        for axes in figure.axes:
            box = axes.get_tightbbox()
            assert box.x1 <= figure.bbox.x1 + 1
            assert box.y0 >= -1
            assert axes.get_position().width > 0.12


def test_shares_of_several_libraries_add_up() -> None:
    libraries = {"$one$": sample_columns(), "two": sample_columns(1, 1)}
    figure = plot_acceptance(libraries)
    axes = figure.axes[0]
    widths = np.array([patch.get_width() for patch in axes.patches]).reshape(-1, 2)
    assert np.allclose(widths.sum(axis=0), 1.0)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$one$", "two"]
    figure.canvas.draw()
    steps = plot_distributions(libraries).axes[1].get_lines()
    assert [line.get_label() for line in steps] == ["$one$", "two"]
    assert steps[0].get_ydata()[-1] == 1.0
