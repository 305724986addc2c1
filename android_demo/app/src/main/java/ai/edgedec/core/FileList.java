package ai.edgedec.core;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * The files of a bundle with sizes and hashes: what {@code device.json} lists, or {@code manifest.json} of a plain bundle.
 * It may come from anywhere, so names that could leave the folder are refused.
 */
public final class FileList {
    public static final String DEVICE = "device.json";
    public static final String MANIFEST = "manifest.json";
    /** The most bytes that a list itself may have. */
    public static final int MOST_BYTES = 1 << 20;

    private static final Pattern PART = Pattern.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,99}");
    private static final Pattern HASH = Pattern.compile("[0-9a-f]{64}");
    private static final int MOST_FILES = 1000;
    private static final int DEPTH = 5;

    /** One file: its name with '/' between folders, its bytes and its SHA-256 in hexadecimal. */
    public static final class Entry {
        public final String name;
        public final long bytes;
        public final String sha256;

        Entry(String name, long bytes, String sha256) {
            this.name = name;
            this.bytes = bytes;
            this.sha256 = sha256;
        }
    }

    /** The model's name. */
    public final String model;
    /** Its files, without the list itself. */
    public final List<Entry> entries;
    /** Bytes of all of them. */
    public final long bytes;

    private FileList(String model, List<Entry> entries) {
        this.model = model;
        this.entries = Collections.unmodifiableList(entries);
        long sum = 0;
        for (Entry entry : entries) sum += entry.bytes;
        bytes = sum;
    }

    /** The list in a text, which is called {@code list}: DEVICE or MANIFEST. */
    public static FileList parse(String list, String text) throws Problem {
        try {
            Map<String, Object> top = Json.object(text);
            boolean device = list.equals(DEVICE);
            String format = device ? "edgedec-device-folder" : "edgedec-bundle";
            if (!format.equals(top.get("format"))) throw new Problem("its format is not " + format);
            Object name = device ? Json.asObject(top.get("target"), "target").get("name") : top.get("name");
            if (!(name instanceof String)) throw new Problem("the model has no name");
            Map<String, Object> files = Json.asObject(top.get("files"), "files");
            if (files.size() > MOST_FILES) throw new Problem("it lists too many files");
            return new FileList((String) name, entries(list, files));
        } catch (Problem problem) {
            throw new Problem(list + " is broken: " + problem.getMessage(), "export or fetch the model again");
        }
    }

    private static List<Entry> entries(String list, Map<String, Object> files) throws Problem {
        List<Entry> found = new ArrayList<>();
        Set<String> seen = new HashSet<>();
        for (Map.Entry<String, Object> file : files.entrySet()) {
            String name = file.getKey();
            Map<String, Object> facts = Json.asObject(file.getValue(), "a file");
            Object size = facts.get("bytes");
            Object hash = facts.get("sha256");
            if (!mayBe(name) || name.equals(list)) throw new Problem("'" + shortened(name) + "' is not the name of a file");
            // Names that differ in case alone are one file on some cards.
            if (!seen.add(name.toLowerCase(java.util.Locale.ROOT))) throw new Problem("two files are called " + name);
            if (!(size instanceof Long) || (Long) size < 0 || (Long) size > 1L << 50)
                throw new Problem("the size of " + name + " is no number of bytes");
            if (!(hash instanceof String) || !HASH.matcher((String) hash).matches())
                throw new Problem("the hash of " + name + " is no SHA-256");
            found.add(new Entry(name, (Long) size, (String) hash));
        }
        if (found.isEmpty()) throw new Problem("it lists no files");
        return found;
    }

    private static boolean mayBe(String name) {
        String[] parts = name.split("/", -1);
        if (parts.length > DEPTH) return false;
        for (String part : parts) if (!PART.matcher(part).matches()) return false;
        return true;
    }

    private static String shortened(String text) {
        return text.length() > 40 ? text.substring(0, 40) : text;
    }
}
