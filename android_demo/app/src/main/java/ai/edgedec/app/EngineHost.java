package ai.edgedec.app;

import ai.edgedec.engine.Engine;
import java.io.File;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Consumer;

/**
 * The engine on the one thread that may use it. What is asked for is done in that order; stop() alone reaches the engine
 * from elsewhere. Listeners are called on the engine's thread.
 */
final class EngineHost {
    /** Work with the engine. */
    interface Work {
        void with(Engine engine) throws Engine.Failure;
    }

    private final ExecutorService worker = Executors.newSingleThreadExecutor();
    private final Object lock = new Object();
    private Engine engine;

    /** Closes the model that is open and opens another one; {@code opened} hears null, or what went wrong. */
    void open(String folder, Engine.Options options, Work first, Consumer<String> opened) {
        worker.execute(() -> {
            close();
            try {
                System.loadLibrary("onnxruntime");
                System.loadLibrary("edgedec");
                Engine made = new Engine(folder, options);
                synchronized (lock) {
                    engine = made;
                }
                first.with(made);
                opened.accept(null);
            } catch (Engine.Failure failure) {
                opened.accept(text(failure));
            } catch (UnsatisfiedLinkError error) {
                opened.accept(error.getMessage());
            }
        });
    }

    /** Does work with the open model. {@code failed} hears what went wrong; {@code notOpen} is run where none is open. */
    void run(Work work, Consumer<String> failed, Runnable notOpen) {
        worker.execute(() -> {
            if (engine == null) {
                notOpen.run();
                return;
            }
            try {
                work.with(engine);
            } catch (Engine.Failure failure) {
                failed.accept(text(failure));
            }
        });
    }

    /** Removes a file when all that was asked for before is done. */
    void remove(File file) {
        worker.execute(file::delete);
    }

    /** Ends the reply in progress; from any thread. */
    void stop() {
        synchronized (lock) {
            if (engine != null) engine.stop();
        }
    }

    private void close() {
        Engine old;
        synchronized (lock) {
            old = engine;
            engine = null;
        }
        if (old != null) old.close();
    }

    private static String text(Engine.Failure failure) {
        return failure.hint.isEmpty() ? failure.getMessage() : failure.getMessage() + " (" + failure.hint + ")";
    }
}
