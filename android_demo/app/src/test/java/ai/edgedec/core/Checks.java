package ai.edgedec.core;

import java.io.File;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Comparator;

/** Runs every method "test..." of the classes below on a plain JVM, each with an empty folder. */
public final class Checks {
    private static final Class<?>[] CLASSES = {JsonChecks.class, StoreChecks.class, DownloaderChecks.class, ChatChecks.class,
            MemoryChecks.class, ModelChecks.class, IncomingChecks.class};

    private Checks() {}

    public static void main(String[] arguments) throws Exception {
        int failed = 0;
        for (Class<?> one : CLASSES) {
            Method[] methods = one.getDeclaredMethods();
            Arrays.sort(methods, Comparator.comparing(Method::getName));
            for (Method method : methods) {
                if (!method.getName().startsWith("test")) continue;
                File folder = Files.createTempDirectory("edgedec").toFile();
                try {
                    method.invoke(null, folder);
                    System.out.println("ok " + one.getSimpleName() + "." + method.getName());
                } catch (java.lang.reflect.InvocationTargetException error) {
                    ++failed;
                    System.out.println("FAILED " + one.getSimpleName() + "." + method.getName());
                    error.getCause().printStackTrace(System.out);
                }
            }
        }
        if (failed > 0) System.exit(1);
    }

    static void same(Object found, Object wanted) {
        if (!String.valueOf(found).equals(String.valueOf(wanted)))
            throw new AssertionError("found " + found + ", wanted " + wanted);
    }

    static void isTrue(boolean fact, String what) {
        if (!fact) throw new AssertionError(what);
    }

    interface Act {
        void run() throws Exception;
    }

    /** The message and hint of the Problem that an act ends in. */
    static String problem(Act act) throws Exception {
        try {
            act.run();
        } catch (Problem problem) {
            return problem.text();
        }
        throw new AssertionError("there was no problem");
    }

    static void contains(String text, String part) {
        if (!text.contains(part)) throw new AssertionError("'" + part + "' is not in: " + text);
    }
}
