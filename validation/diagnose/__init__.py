"""`tq diagnose`: what captured keys and values are like, and which arm, rates and cache policy that speaks for."""
