"""What surrounds the real decisions and sessions in every simulation: agents and step loops, and what must hold."""
