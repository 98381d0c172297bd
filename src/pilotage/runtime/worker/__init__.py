"""Driving runs that nobody drives, for as long as the application is started."""
