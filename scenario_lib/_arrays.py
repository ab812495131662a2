"""Names for numpy arrays by what they hold; docstrings give shapes and units where they are used."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Indices = NDArray[np.uint32]
Bools = NDArray[np.bool_]
Complexes = NDArray[np.complex128]
