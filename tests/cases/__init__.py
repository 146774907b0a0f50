"""Measured truth: what the estimator predicts against what engines did."""
