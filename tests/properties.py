"""How many examples a property is tried on: `FEW` where one takes long."""

import hypothesis

FEW = hypothesis.settings().max_examples // 3
