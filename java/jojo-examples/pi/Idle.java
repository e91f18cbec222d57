import silf.jojo.Code;

/** A node that does nothing itself: the paper's first layer of three. */
public class Idle extends Code {}
