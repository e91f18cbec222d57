package silf.jpop;

import java.io.Serializable;

/**
 * What a node has done since it began, for people who watch.
 *
 * @param place its place in the tree: ranks with dots between; empty at the client
 * @param name as the configuration has it
 * @param works whether it does the work itself, instead of giving it to those below it
 * @param work subproblems looked at, generations bred
 * @param messages to its parent
 * @param bytes of those messages' contents
 * @param faults nodes below it that it lost
 */
public record NodeStat(String place, String name, boolean works, long work, long messages, long bytes, long faults)
        implements Serializable {}
