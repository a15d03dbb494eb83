"""ScaleIn, of et-operator and of etcompile: what both scale intents share is in `scaling`."""

from etcompile.frontends import scaling

KINDS = scaling.kinds("ScaleIn", scaling.lower_scale_in, "removes workers of", "toDelete")
