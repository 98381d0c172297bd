"""`pilotage doctor`: looks at everything an application depends on, and says what to do about what is off."""
