package ai.edgedec.core;

import java.util.Locale;

/** Text that comes from other apps: shared, pasted or dropped. Pictures and all else are refused, since models read text alone. */
public final class Incoming {
    /** Characters that a field still shows quickly. */
    static final int MOST = 100_000;

    private Incoming() {}

    /** The text of something shared; {@code type} and {@code text} may be null. */
    public static String shared(String type, CharSequence text) throws Problem {
        if (type != null && !isText(type)) throw refusal(type);
        String found = text == null ? "" : text.toString().trim();
        if (found.isEmpty()) throw new Problem("there is no text in it", "share a text");
        if (found.length() > MOST) throw new Problem("the text has more than " + MOST + " characters", "share a part of it");
        return found;
    }

    /** Raises a Problem unless one of the types of a clip is text; {@code types} may be null, for a clip that says none. */
    public static void check(String[] types) throws Problem {
        if (types == null || types.length == 0) return;
        for (String type : types) if (isText(type)) return;
        throw refusal(types[0]);
    }

    private static boolean isText(String type) {
        return type.toLowerCase(Locale.ROOT).startsWith("text/");
    }

    private static Problem refusal(String type) {
        String kind = type.toLowerCase(Locale.ROOT).replaceAll("/.*", "");
        String thing = kind.equals("image") ? "pictures" : kind.equals("audio") ? "sounds" : kind.equals("video") ? "films" : "files";
        return new Problem("models here read text, no " + thing, "share or type text");
    }
}
