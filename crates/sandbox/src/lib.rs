//! The process VM (ring 2): policy above, mechanism below.
