"""The life cycle of a run as pure functions: states, policies, planning and settling."""
