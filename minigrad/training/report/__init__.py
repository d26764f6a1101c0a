"""Reports: the page of one run, and ``python -m minigrad.training.report RUN RUN ...``, which compares several."""
