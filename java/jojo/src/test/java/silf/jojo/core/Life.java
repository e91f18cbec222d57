package silf.jojo.core;

import java.io.IOException;
import silf.jojo.testkit.Processes;

/** What there is of a node besides its links: a JVM, or a thread of this one. */
interface Life {
    /** Without a word. */
    void kill();

    /** It is there, and silent. */
    void stop();

    boolean hasEnded();

    /** Its death is the end of its wire, its silence one that does not move. */
    record InThisJvm(Gate end, Thread thread) implements Life {
        @Override
        public void kill() {
            try {
                end.close();
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void stop() {
            end.shut();
        }

        @Override
        public boolean hasEnded() {
            return !thread.isAlive();
        }
    }

    /** By signals. */
    record OfProcess(long pid) implements Life {
        @Override
        public void kill() {
            signal("KILL");
        }

        @Override
        public void stop() {
            signal("STOP");
        }

        private void signal(String name) {
            try {
                Processes.kill(pid, name);
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public boolean hasEnded() {
            return !ProcessHandle.of(pid).map(ProcessHandle::isAlive).orElse(false);
        }
    }
}
