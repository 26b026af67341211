"""What links really do, measured before a run relies on them.

`calibrate(wan, thorough)` sends frames over every direction of every link, from the source's own
interface to the target's, and sets rate, delay and loss against what the topology asks for.
"""

from testbed.calibration.measure import calibrate
from testbed.calibration.render import calibration_table, plot, verdict
from testbed.calibration.result import Calibration, CalibrationError, DirectionResult
from testbed.calibration.tolerance import QUICK_TOLERANCE, THOROUGH_TOLERANCE, Tolerance

__all__ = [
    "QUICK_TOLERANCE",
    "THOROUGH_TOLERANCE",
    "Calibration",
    "CalibrationError",
    "DirectionResult",
    "Tolerance",
    "calibrate",
    "calibration_table",
    "plot",
    "verdict",
]
