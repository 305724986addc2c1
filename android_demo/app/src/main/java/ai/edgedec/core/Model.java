package ai.edgedec.core;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A model to take, or one that is here, with the sizes by which it fits a phone. */
public final class Model {
    private static final String FORMAT = "edgedec-models";

    public final String name;
    /** Name and number format for readers, and what it is good for; empty for one that is not in the list. */
    public final String title;
    public final String goodFor;
    /** Bytes of its files. */
    public final long bytes;
    /** Bytes of memory that it takes; for one that is not in the list, those of its weights. */
    public final long memory;
    /** The smallest budget in which it opens. */
    public final long least;
    /** Whether it has experts, which may be read from storage. */
    public final boolean experts;

    private Model(String name, String title, String goodFor, long bytes, long memory, long least, boolean experts) {
        this.name = name;
        this.title = title;
        this.goodFor = goodFor;
        this.bytes = bytes;
        this.memory = memory;
        this.least = least;
        this.experts = experts;
    }

    /** The models in the list that the build made. */
    public static List<Model> listed(String text) throws Problem {
        Map<String, Object> top = Json.object(text);
        if (!FORMAT.equals(top.get("format")) || !(top.get("models") instanceof List)) throw new Problem("this is no list of models");
        List<Model> found = new ArrayList<>();
        for (Object one : (List<?>) top.get("models")) {
            Map<String, Object> facts = Json.asObject(one, "a model");
            found.add(new Model(text(facts, "name"), text(facts, "title"), text(facts, "good_for"), number(facts, "bytes"),
                    number(facts, "memory"), number(facts, "least"), Boolean.TRUE.equals(facts.get("experts"))));
        }
        return found;
    }

    /** The model of a manifest.json, which says how large its weights are, not what else it takes. */
    public static Model of(String name, String manifest) throws Problem {
        Map<String, Object> top = Json.object(manifest);
        Map<String, Object> spec = Json.asObject(top.get("spec"), "spec");
        long bytes = 0;
        for (FileList.Entry file : FileList.parse(FileList.MANIFEST, manifest).entries) bytes += file.bytes;
        Map<String, Object> files = Json.asObject(top.get("files"), "files");
        // A token needs one row of a table of embeddings, so the table takes no memory.
        long weights = number(Json.asObject(files.get("weights.bin"), "weights.bin"), "bytes")
                - (spec.containsKey("table_bytes") ? number(spec, "table_bytes") : 0);
        long least = weights;
        boolean sparse = spec.get("experts") != null;
        if (sparse) {
            Map<String, Object> experts = Json.asObject(spec.get("experts"), "experts");
            long all = number(experts, "layers") * number(experts, "count");
            least += Math.min(4 * number(experts, "chosen"), all) * number(experts, "slot_bytes") - number(experts, "nbytes");
        }
        return new Model(name, "", "", bytes, weights, Math.max(least, 0), sparse);
    }

    public Budget.Fit fit(long budget) {
        return Budget.fit(budget, memory, least);
    }

    /** Whether its memory is that of the list, and not only its weights'. */
    public boolean known() {
        return !title.isEmpty();
    }

    /** The commands that bring it here from a computer. */
    public String commands() {
        return "edgedec export " + name + " --for android -o " + name + "\nedgedec push " + name;
    }

    private static String text(Map<String, Object> facts, String key) throws Problem {
        if (facts.get(key) instanceof String) return (String) facts.get(key);
        throw new Problem(key + " is not a text");
    }

    private static long number(Map<String, Object> facts, String key) throws Problem {
        Object value = facts.get(key);
        if (value instanceof Long && (Long) value >= 0) return (Long) value;
        throw new Problem(key + " is no number");
    }
}
