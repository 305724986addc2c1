package ai.edgedec.app;

import ai.edgedec.core.MemoryFigures;
import ai.edgedec.core.Problem;
import ai.edgedec.core.ReplyFigures;
import ai.edgedec.core.Units;
import ai.edgedec.engine.Engine;
import android.content.Context;
import java.util.ArrayList;
import java.util.List;

/** A reply, or the next part of one, on the engine's thread: what came, and what it took. */
final class Computation {
    /** The call of the engine that replies. */
    interface Call {
        void with(Engine engine, Engine.Listener listener, int[] counts, double[] seconds) throws Engine.Failure;
    }

    /** One line of figures. */
    String figures;
    /** Whether it came to its end without a fault. */
    boolean whole;
    /** Whether the reply may go on. */
    boolean cut = true;
    /** A line about memory and current for after the reply. */
    String after = "";

    private final Context context;
    private final Battery battery;

    Computation(Context context, Battery battery, String figures) {
        this.context = context;
        this.battery = battery;
        this.figures = figures;
    }

    void run(Engine engine, Call call, Stream stream) throws Engine.Failure {
        int[] counts = new int[8];
        double[] seconds = new double[2];
        battery.start();
        double joules;
        try {
            call.with(engine, stream, counts, seconds);
        } finally {
            joules = battery.stop();
        }
        ReplyFigures found = new ReplyFigures(counts, seconds);
        figures = found.line(found.tokens > 0 ? joules / found.tokens : Double.NaN);
        cut = found.cut();
        after = after(engine.stats());
        whole = true;
    }

    /** Memory against the budget, and the battery's current. */
    private String after(String stats) {
        List<String> parts = new ArrayList<>();
        try {
            MemoryFigures memory = new MemoryFigures(stats);
            String used = Units.bytes(memory.used);
            parts.add(memory.budget > 0 ? context.getString(R.string.memory_of, used, Units.bytes(memory.budget))
                    : context.getString(R.string.memory_used, used));
            if (memory.streams()) parts.add(context.getString(R.string.experts, memory.experts, memory.allExperts));
        } catch (Problem other) {
            parts.add(other.getMessage());
        }
        double amperes = battery.amperes();
        if (!Double.isNaN(amperes)) parts.add(context.getString(R.string.current, Math.round(amperes * 1000)));
        return String.join(" \u00b7 ", parts);
    }
}
