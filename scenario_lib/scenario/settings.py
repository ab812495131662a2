"""How scenarios are drawn: one frozen value with every knob of the randomisation.

The flat names and defaults are openg2g's, so that a library written by its example names the same settings. A knob
with a lower and an upper end is one `Range` here and two names there (`pv_scale` is `pv_scale_min`, `pv_scale_max`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from scenario_lib._values import (
    Bounds,
    few,
    instance_of,
    likely,
    refuse,
    require_at_least,
    require_at_most_entries,
    require_between,
    require_count,
)
from scenario_lib.errors import InvalidSettingError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.scenario.profiles import LOAD_SHAPES, PV_SHAPES


class Range(NamedTuple):
    """Ends of a uniform draw; equal ends are allowed."""

    low: float
    high: float


_MOST = 1000
"""Clouds or ramps in an hour; settings come from files, and a draw is as large as they say."""

_LONGEST_S = 100 * DURATION_S

_RANGE_BOUNDS = {
    "pv_scale": Bounds(0, 1000),
    "load_scale": Bounds(0, 1000),
    "pv_warp": Bounds(0.01, 1000),
    "tvl_warp": Bounds(0.01, 1000),
    "overlay_intensity": Bounds(0.01, 1000),
    "overlay_gpu_frac": Bounds(0, 1000),
    "ramp_up_frac": Bounds(0, 1000),
    "ramp_down_frac": Bounds(0, 1),
    "ramp_frac": Bounds(0, 1),
    "ramp_start": Bounds(0, DURATION_S),
    "ramp_dur": Bounds(0, _LONGEST_S),
    "pv_baseline": Bounds(0, 1000),
    "pv_cloud_depth": Bounds(0, 1),
    "pv_cloud_width": Bounds(1e-6, _LONGEST_S),
}


_BROAD = {"randomization_profile": True}
_BROAD_RAMPS = {**_BROAD, "randomize_ramps": True}
_RAMPS = {"randomize_ramps": True}
_SAMPLED_PV = {**_BROAD, "randomize_pv_profile": True}
_READ_UNDER: dict[str, dict[str, bool]] = {
    **dict.fromkeys(("pv_scale", "load_scale", "pv_t_shift_max_s", "tvl_t_shift_max_s", "pv_warp", "tvl_warp"), _BROAD),
    **dict.fromkeys(("overlay_prob", "overlay_intensity", "overlay_gpu_frac"), _BROAD),
    **dict.fromkeys(("randomize_pv_profile", "randomize_tvl_profile"), _BROAD),
    **dict.fromkeys(("n_ramps_per_site_choices", "ramp_up_prob", "ramp_up_frac", "ramp_down_frac"), _BROAD_RAMPS),
    **dict.fromkeys(("ramp_start", "ramp_dur"), _RAMPS),
    "ramp_frac": {"randomization_profile": False, "randomize_ramps": True},
    **dict.fromkeys(("pv_baseline", "pv_cloud_count_max", "pv_cloud_depth", "pv_cloud_width"), _SAMPLED_PV),
    "pv_shape_choices": _SAMPLED_PV,
    "tvl_shape_choices": {**_BROAD, "randomize_tvl_profile": True},
}
"""Settings that draws read only under others."""


@dataclass(frozen=True, slots=True)
class RandomizationSettings:
    """Settings of `randomize_scenario`; every combination is checked on construction.

    Attributes:
        randomization_profile: True for the broad profile, False for the narrow one.
        randomize_ramps: Draw inference ramps; otherwise sites keep their own.
        pv_scale, load_scale: Factor on all PV or load peaks (broad).
        pv_t_shift_max_s, tvl_t_shift_max_s: Largest time shift of PV or load profiles, either way (s).
        pv_warp, tvl_warp: Factor on the time axis of PV or load profiles.
        overlay_prob: Probability of the training overlay (broad), if the experiment has one.
        overlay_intensity: Factor on the training job's peak power per GPU.
        overlay_gpu_frac: Fraction of the training job's GPUs.
        n_ramps_per_site_choices: Numbers of ramps among which each site's is picked.
        ramp_up_prob: Probability that a ramp goes up, where GPUs are free.
        ramp_up_frac, ramp_down_frac: Fraction of the initial replicas that a ramp goes to.
        ramp_start, ramp_dur: Start and duration of ramps (s).
        ramp_frac: As `ramp_down_frac`, for the narrow profile.
        randomize_pv_profile, randomize_tvl_profile: Sample a profile instead of the analytic one.
        pv_shape_choices, tvl_shape_choices: Shapes of sampled profiles.
        pv_baseline: Level of a flat sampled PV profile, as a fraction of its peak.
        pv_cloud_count_max: Most clouds on a sampled PV profile.
        pv_cloud_depth, pv_cloud_width: Depth (fraction of the peak) and half width (s) of a cloud.

    Raises:
        InvalidSettingError: Naming the setting, its value, and what is allowed.
    """

    randomization_profile: bool = True
    randomize_ramps: bool = True
    pv_scale: Range = Range(0.5, 2.0)
    load_scale: Range = Range(0.5, 2.0)
    pv_t_shift_max_s: float = 0.0
    tvl_t_shift_max_s: float = 0.0
    pv_warp: Range = Range(1.0, 1.0)
    tvl_warp: Range = Range(1.0, 1.0)
    overlay_prob: float = 1.0
    overlay_intensity: Range = Range(1.0, 1.0)
    overlay_gpu_frac: Range = Range(0.85, 1.0)
    n_ramps_per_site_choices: tuple[int, ...] = (1,)
    ramp_up_prob: float = 0.0
    ramp_up_frac: Range = Range(1.05, 1.5)
    ramp_down_frac: Range = Range(0.5, 0.85)
    ramp_start: Range = Range(500.0, 3000.0)
    ramp_dur: Range = Range(300.0, 800.0)
    ramp_frac: Range = Range(0.15, 0.3)
    randomize_pv_profile: bool = False
    randomize_tvl_profile: bool = False
    pv_baseline: Range = Range(0.75, 0.95)
    pv_cloud_count_max: int = 3
    pv_cloud_depth: Range = Range(0.30, 0.70)
    pv_cloud_width: Range = Range(60.0, 300.0)
    pv_shape_choices: tuple[str, ...] = tuple(PV_SHAPES)
    tvl_shape_choices: tuple[str, ...] = tuple(LOAD_SHAPES)

    def __post_init__(self) -> None:
        for name, bounds in _RANGE_BOUNDS.items():
            object.__setattr__(self, name, _checked_range(name, getattr(self, name), bounds))
        for name in ("n_ramps_per_site_choices", "pv_shape_choices", "tvl_shape_choices"):
            object.__setattr__(self, name, _checked_choices(name, getattr(self, name)))
        for name in ("randomization_profile", "randomize_ramps", "randomize_pv_profile", "randomize_tvl_profile"):
            if not isinstance(getattr(self, name), bool):
                raise refuse(name, getattr(self, name), "true or false")
        for name in ("overlay_prob", "ramp_up_prob"):
            require_between(name, getattr(self, name), 0, 1)
        for name in ("pv_t_shift_max_s", "tvl_t_shift_max_s"):
            Bounds(0, _LONGEST_S).require(name, getattr(self, name))
        _require_few("pv_cloud_count_max", self.pv_cloud_count_max)
        for count in self.n_ramps_per_site_choices:
            _require_few("n_ramps_per_site_choices", count)
        _check_shapes("pv_shape_choices", self.pv_shape_choices, PV_SHAPES)
        _check_shapes("tvl_shape_choices", self.tvl_shape_choices, LOAD_SHAPES)

    @classmethod
    def from_openg2g(cls, flat: Mapping[str, Any]) -> "RandomizationSettings":
        """Settings from openg2g's flat names (a library's `randomize_kwargs`, a recipe's `[randomization]`).

        Names left out keep their defaults.

        Raises:
            InvalidSettingError: An unknown name, or a value that is not allowed.
        """
        given = dict(instance_of(Mapping, hint=" of openg2g's names")("settings", flat))
        values: dict[str, Any] = {}
        for field in fields(cls):
            if isinstance(field.default, Range):
                low, high = f"{field.name}_min", f"{field.name}_max"
                values[field.name] = Range(given.pop(low, field.default.low), given.pop(high, field.default.high))
            elif field.name in given:
                values[field.name] = given.pop(field.name)
        if given:
            unknown = sorted(map(str, given))
            hint = likely(unknown[0], cls().to_openg2g())
            raise InvalidSettingError(f"unknown randomisation settings: {few(unknown)}; {hint}")
        return cls(**values)

    def unread(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Flat names that somebody gave though no draw reads them, each with what would have them read."""
        found = {}
        for name, value in given.items():
            field = name if name in _READ_UNDER else name.removesuffix("_min").removesuffix("_max")
            lacking = [
                f"{other} = {str(wanted).lower()}"
                for other, wanted in _READ_UNDER.get(field, {}).items()
                if getattr(self, other) != wanted
            ]
            if lacking and value is not False:
                found[name] = " and ".join(lacking)
        return found

    def to_openg2g(self) -> dict[str, Any]:
        """The settings by openg2g's flat names, tuples as lists, ready for JSON."""
        flat: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Range):
                flat[f"{field.name}_min"], flat[f"{field.name}_max"] = float(value.low), float(value.high)
            elif isinstance(field.default, float):
                flat[field.name] = float(value)
            else:
                flat[field.name] = list(value) if isinstance(value, tuple) else value
        return flat


def _checked_range(name: str, value: Any, bounds: Bounds) -> Range:
    """The pair as a `Range`; a caller may write it as a plain tuple or list."""
    try:
        low, high = value
    except (TypeError, ValueError):
        raise refuse(name, value, "a pair (low, high)") from None
    for end, end_value in (("min", low), ("max", high)):
        require_at_least(f"{name}_{end}", end_value, bounds.low)
        if end_value > bounds.high:
            raise refuse(f"{name}_{end}", end_value, f"between {bounds.low:g} and {bounds.high:g}")
    if high < low:
        raise refuse(f"{name}_min, {name}_max", (low, high), "a lower end that is not above the upper end")
    return Range(low, high)


def _require_few(name: str, count: int) -> None:
    require_count(name, count, 0)
    require_between(name, count, 0, _MOST)


def _checked_choices(name: str, choices: Any) -> tuple[Any, ...]:
    if not isinstance(choices, tuple | list) or not choices:
        raise refuse(name, choices, "a list with at least one entry")
    require_at_most_entries(name, choices, _MOST)
    return tuple(choices)


def _check_shapes(name: str, choices: tuple[str, ...], known: Mapping[str, object]) -> None:
    for shape in choices:
        if not isinstance(shape, str) or shape not in known:
            raise refuse(name, shape, f"one of {', '.join(known)}")
