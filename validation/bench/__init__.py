"""`tq bench`: how fast the decode step and its parts are, beside other people's, on one machine in one run."""
