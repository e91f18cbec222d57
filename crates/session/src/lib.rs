//! `kumiko/1` over any byte stream: streams, credit, resumption.
