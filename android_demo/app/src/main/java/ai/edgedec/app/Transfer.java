package ai.edgedec.app;

import ai.edgedec.core.Problem;
import ai.edgedec.core.Progress;
import android.os.Handler;
import android.os.Looper;

/** One long work on files at a time, which goes on while the phone is turned. Fields belong to the main thread. */
final class Transfer implements Progress {
    interface Work {
        /** Does it and returns a line for the user. */
        String run(Transfer progress) throws Problem;
    }

    interface Watcher {
        void changed();

        void failed(String text);
    }

    static final Transfer ONLY = new Transfer();

    private static final long SHOW_EVERY_NS = 100_000_000L;
    private final Handler main = new Handler(Looper.getMainLooper());
    private volatile boolean stopping;
    private volatile long done;
    private volatile long total;
    private volatile String name = "";
    private long shown;
    private boolean running;
    private String line = "";
    private String lateFault;
    private Watcher watcher;

    private Transfer() {}

    void watch(Watcher next) {
        watcher = next;
        if (next != null && lateFault != null) {
            next.failed(lateFault);
            lateFault = null;
        }
    }

    boolean running() {
        return running;
    }

    String line() {
        return line;
    }

    String name() {
        return name;
    }

    long done() {
        return done;
    }

    long total() {
        return total;
    }

    void stop() {
        stopping = true;
    }

    /** Says what is worked on; called by the work itself. */
    void of(String what, long bytes) {
        name = what;
        total = bytes;
    }

    void start(Work work) {
        if (running) return;
        running = true;
        stopping = false;
        done = total = 0;
        name = line = "";
        new Thread(() -> {
            String said = "";
            String fault = null;
            try {
                said = work.run(this);
            } catch (Problem problem) {
                fault = problem.text();
            }
            String result = said;
            String failed = fault;
            main.post(() -> ended(result, failed));
        }, "transfer").start();
        changed();
    }

    @Override
    public boolean moved(long bytes) {
        done += bytes;
        if (System.nanoTime() - shown > SHOW_EVERY_NS) {
            shown = System.nanoTime();
            main.post(this::changed);
        }
        return stopping;
    }

    private void ended(String result, String fault) {
        running = false;
        line = result;
        if (fault != null && watcher != null) watcher.failed(fault);
        else lateFault = fault;
        changed();
    }

    private void changed() {
        if (watcher != null) watcher.changed();
    }
}
