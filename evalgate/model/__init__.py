"""The nouns of evalgate: frozen values, no behaviour beyond arithmetic on themselves."""

from .calibration import *
from .case import *
from .comparison import *
from .conversation import *
from .report import *
from .run import *
from .trial import *
