package ai.edgedec.engine;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * edgedec.h for Java: a model that is open. One thread at a time uses it; only {@link #stop} is for others. Load the
 * libraries onnxruntime and edgedec before.
 */
public final class Engine implements AutoCloseable {
    /** A call that failed: the code of edgedec.h, what is wrong, and how to mend it. */
    public static final class Failure extends Exception {
        private static final long serialVersionUID = 1;
        public final int code;
        public final String hint;

        Failure(int code, byte[] message, byte[] hint) {
            super(text(message));
            this.code = code;
            this.hint = text(hint);
        }
    }

    /** Hears a reply while it is computed. A method that returns true ends it. */
    public interface Listener {
        /** Text of a token, whole characters in UTF-8, perhaps none: of the answer, and of the thinking part in front of it. */
        boolean token(byte[] text, byte[] thought, boolean drafted);

        /** How much of the prompt is read. */
        boolean prompt(long done, long total);
    }

    /** Hears lines for the user while a model opens. */
    public interface Notices {
        void notice(byte[] line);
    }

    /** What edgedec_options has; 0 and null are its defaults. */
    public static final class Options {
        public long memory;
        public int context;
        public int threads;
        public boolean verify;
        public String drafts;
        public String runtime;
        public String costFolder;
        public String tablesFolder;
        public Notices notices;
    }

    private long handle;

    /** Opens the bundle in a folder. */
    /** The JSON schema that replies keep to from now on; null: none. */
    public String schema;

    public Engine(String folder, Options options) throws Failure {
        handle = open(bytes(folder), new long[] {options.memory, options.context, options.threads, options.verify ? 1 : 0},
                new byte[][] {bytes(options.drafts), bytes(options.runtime), bytes(options.costFolder), bytes(options.tablesFolder)},
                options.notices);
    }

    public static String version() {
        return text(nativeVersion());
    }

    /**
     * Replies to a conversation whose roles and texts alternate in {@code messages}. Fills the numbers of edgedec_result:
     * counts[8] from finish to dropped_messages, seconds[2].
     */
    public void reply(List<String> messages, int maxTokens, Listener listener, int[] counts, double[] seconds) throws Failure {
        byte[][] texts = new byte[messages.size()][];
        for (int i = 0; i < texts.length; ++i) texts[i] = bytes(messages.get(i));
        reply(handle, texts, maxTokens, bytes(schema), listener, counts, seconds);
    }

    /** Continues the latest reply, which a limit or a stop cut. Fills the numbers of the new part. */
    public void more(int maxTokens, Listener listener, int[] counts, double[] seconds) throws Failure {
        more(handle, maxTokens, bytes(schema), listener, counts, seconds);
    }

    /** Ends the reply that is being computed; from any thread. The caller makes sure that the engine is open. */
    public void stop() {
        stop(handle);
    }

    /** Figures as JSON. */
    public String stats() throws Failure {
        return text(stats(handle));
    }

    /** Writes the state of the latest reply, so that a later start need not read the conversation again. */
    public void save(String path) throws Failure {
        save(handle, bytes(path));
    }

    public void restore(String path) throws Failure {
        restore(handle, bytes(path));
    }

    /** Measures the costs of passes again, as when the phone is hot. */
    public void measureAgain() throws Failure {
        measureAgain(handle);
    }

    @Override
    public void close() {
        close(handle);
        handle = 0;
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] utf8) {
        return new String(utf8, StandardCharsets.UTF_8);
    }

    private static native byte[] nativeVersion();

    private static native long open(byte[] folder, long[] numbers, byte[][] texts, Notices notices) throws Failure;

    private static native void reply(long handle, byte[][] messages, int maxTokens, byte[] schema, Listener listener,
            int[] counts, double[] seconds) throws Failure;

    private static native void more(long handle, int maxTokens, byte[] schema, Listener listener, int[] counts,
            double[] seconds) throws Failure;

    private static native void stop(long handle);

    private static native byte[] stats(long handle) throws Failure;

    private static native void save(long handle, byte[] path) throws Failure;

    private static native void restore(long handle, byte[] path) throws Failure;

    private static native void measureAgain(long handle) throws Failure;

    private static native void close(long handle);
}
