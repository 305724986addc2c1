package ai.edgedec.core;

import java.util.Map;

/**
 * Memory as the engine counts it, by which it keeps its budget: pages of mapped files that are in memory count, and
 * experts that it reads from storage count while they have a place.
 */
public final class MemoryFigures {
    /** Bytes of the whole process that are in memory. */
    public final long used;
    /** The most bytes that they may be; 0: there is no limit. */
    public final long budget;
    /** Experts that have a place in memory, and all of them; 0: the model has none that are read from storage. */
    public final long experts;
    public final long allExperts;

    /** The figures in what edgedec_stats says. */
    public MemoryFigures(String stats) throws Problem {
        Map<String, Object> top = Json.object(stats);
        used = number(top, "rss_bytes");
        budget = number(Json.asObject(top.get("memory"), "memory"), "budget_bytes");
        boolean streams = top.containsKey("experts");
        Map<String, Object> found = streams ? Json.asObject(top.get("experts"), "experts") : top;
        experts = streams ? number(found, "slots") : 0;
        allExperts = streams ? number(found, "total") : 0;
    }

    /** Whether some experts have to be read again and again. */
    public boolean streams() {
        return experts < allExperts;
    }

    private static long number(Map<String, Object> facts, String key) throws Problem {
        Object value = facts.get(key);
        if (value instanceof Long) return (Long) value;
        if (value == null && facts.containsKey(key)) return 0;
        throw new Problem(key + " is no number");
    }
}
