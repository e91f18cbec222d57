//! Throw-away CA, process guard, deadlines.
