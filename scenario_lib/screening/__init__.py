"""Measure candidates, judge them by criteria, choose, and build a library of those accepted."""
