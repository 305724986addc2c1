package ai.edgedec.core;

import java.util.LinkedHashMap;
import java.util.Map;

/** How a model runs, as the user chose it. */
public final class Settings {
    /** The most bytes of the process; 0: as the phone has memory. */
    public final long memory;
    /** "auto", "off", or drafters by comma. */
    public final String drafts;
    /** Tokens of the KV cache; 0: as the model and the memory allow. */
    public final int context;
    /** Most tokens of a reply; 0: no limit. */
    public final int maxTokens;

    public static final Settings DEFAULT = new Settings(0, "auto", 0, 512);

    public Settings(long memory, String drafts, int context, int maxTokens) {
        this.memory = memory;
        this.drafts = drafts;
        this.context = context;
        this.maxTokens = maxTokens;
    }

    /** Whether a model that is open has to be opened again for these. */
    public boolean opensLike(Settings other) {
        return memory == other.memory && drafts.equals(other.drafts) && context == other.context;
    }

    public String toJson() {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("memory", memory);
        facts.put("drafts", drafts);
        facts.put("context", context);
        facts.put("max_tokens", maxTokens);
        return Json.write(facts);
    }

    /** The settings in a text; the defaults where it is damaged. */
    public static Settings fromJson(String text) {
        try {
            Map<String, Object> facts = Json.object(text);
            Object drafts = facts.get("drafts");
            return new Settings(number(facts, "memory"), drafts instanceof String ? (String) drafts : "auto",
                    (int) number(facts, "context"), (int) number(facts, "max_tokens"));
        } catch (Problem damaged) {
            return DEFAULT;
        }
    }

    private static long number(Map<String, Object> facts, String key) throws Problem {
        Object value = facts.get(key);
        if (value instanceof Long && (Long) value >= 0) return (Long) value;
        throw new Problem(key + " is no number");
    }
}
