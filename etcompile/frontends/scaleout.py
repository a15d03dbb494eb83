"""ScaleOut, of et-operator and of etcompile: what both scale intents share is in `scaling`."""

from etcompile.frontends import scaling

KINDS = scaling.kinds("ScaleOut", scaling.lower_scale_out, "adds workers to", "toAdd")
