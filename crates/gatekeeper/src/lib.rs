//! Front: accept, authenticate, authorise, map, hand over.
