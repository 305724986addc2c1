package ai.edgedec.engine;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/**
 * Runs the engine through its Java class on the JVM of a computer: the library, ONNX Runtime's library, a folder with a
 * model, a file for the session, and a question. Prints the reply, so that a test compares it with another side's.
 */
public final class EngineChecks {
    private static final int TOKENS = 24;

    private EngineChecks() {}

    private static final class Reply implements Engine.Listener {
        final StringBuilder text = new StringBuilder();
        final StringBuilder thought = new StringBuilder();
        final int[] counts = new int[8];
        final double[] seconds = new double[2];
        int stopAfter = Integer.MAX_VALUE;
        int heard;
        boolean breaks;

        @Override
        public boolean token(byte[] utf8, byte[] thought, boolean drafted) {
            text.append(new String(utf8, StandardCharsets.UTF_8));
            this.thought.append(new String(thought, StandardCharsets.UTF_8));
            if (breaks) throw new IllegalStateException("a fault of the screen");
            return ++heard >= stopAfter;
        }

        @Override
        public boolean prompt(long done, long total) {
            return false;
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.load(arguments[0]);
        Engine.Options options = new Engine.Options();
        options.runtime = arguments[1];
        options.verify = true;
        options.context = 512;
        try (Engine engine = new Engine(arguments[2], options)) {
            List<String> messages = Arrays.asList("user", arguments[4]);
            Reply whole = reply(engine, messages, new Reply());
            System.out.println("reply " + hex(whole.text));
            System.out.println("thought " + hex(whole.thought));
            System.out.println("tokens " + whole.counts[3]);
            stops(engine, messages, whole);
            System.out.println("form " + hex(formed(engine, messages)));
            faults(engine, messages);
            engine.save(arguments[3]);
            engine.measureAgain();
            engine.restore(arguments[3]);
            same(reply(engine, messages, new Reply()).text, whole.text, "a restored session");
            System.out.println("stats " + engine.stats());
        }
        missing(arguments[2] + "-nowhere", options);
        System.out.println("version " + Engine.version());
    }

    private static Reply reply(Engine engine, List<String> messages, Reply reply) throws Engine.Failure {
        engine.reply(messages, TOKENS, reply, reply.counts, reply.seconds);
        return reply;
    }

    private static CharSequence formed(Engine engine, List<String> messages) throws Engine.Failure {
        engine.schema = "{\"enum\": [\"yes\", \"no\"]}";
        CharSequence answer = reply(engine, messages, new Reply()).text;
        engine.schema = "{\"not\": {}}";
        try {
            reply(engine, messages, new Reply());
            throw new AssertionError("a schema that cannot be kept to was taken");
        } catch (Engine.Failure right) {
            check(right.code == 2 && right.getMessage().contains("not"), right.getMessage());
        }
        engine.schema = null;
        reply(engine, messages, new Reply());
        return answer;
    }

    private static void stops(Engine engine, List<String> messages, Reply whole) throws Exception {
        Reply stopped = new Reply();
        stopped.stopAfter = 3;
        reply(engine, messages, stopped);
        check(stopped.counts[0] == 5, "finish " + stopped.counts[0]);
        check(whole.text.toString().startsWith(stopped.text.toString()), "the beginning of the reply");
        Reply rest = new Reply();
        engine.more(TOKENS - stopped.counts[3], rest, rest.counts, rest.seconds);
        same(stopped.text.toString() + rest.text, whole.text, "a reply that goes on");
        same(stopped.thought.toString() + rest.thought, whole.thought, "a thought that goes on");
    }

    private static void faults(Engine engine, List<String> messages) throws Exception {
        Reply breaking = new Reply();
        breaking.breaks = true;
        try {
            reply(engine, messages, breaking);
            throw new AssertionError("the fault of a listener was lost");
        } catch (IllegalStateException right) {
            check(right.getMessage().contains("screen"), "its own fault");
        }
        try {
            reply(engine, Arrays.asList("nobody", "x"), new Reply());
            throw new AssertionError("a role that does not exist was taken");
        } catch (Engine.Failure right) {
            check(right.code == 2 && right.getMessage().contains("nobody"), right.getMessage());
        }
    }

    private static void missing(String folder, Engine.Options options) {
        try (Engine engine = new Engine(folder, options)) {
            throw new AssertionError("a folder that does not exist was opened");
        } catch (Engine.Failure right) {
            check(right.code == 3, right.code + " " + right.getMessage());
        }
    }

    private static String hex(CharSequence text) {
        StringBuilder out = new StringBuilder();
        for (byte one : text.toString().getBytes(StandardCharsets.UTF_8)) out.append(String.format("%02x", one & 255));
        return out.toString();
    }

    private static void same(CharSequence found, CharSequence wanted, String what) {
        check(found.toString().contentEquals(wanted), what + ": " + found);
    }

    private static void check(boolean fact, String what) {
        if (!fact) throw new AssertionError(what);
    }
}
