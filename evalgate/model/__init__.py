"""The nouns of evalgate: frozen values, no behaviour beyond arithmetic on themselves."""

from evalgate.model.calibration import *
from evalgate.model.case import *
from evalgate.model.comparison import *
from evalgate.model.conversation import *
from evalgate.model.report import *
from evalgate.model.run import *
from evalgate.model.trial import *
