"""Whether a candidate may ship: rules, statistics, waivers and the decision. Pure functions."""
