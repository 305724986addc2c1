package ai.edgedec.core;

import java.util.Locale;

/** Numbers as people read them. */
public final class Units {
    private Units() {}

    /** How many words a text has. */
    public static int words(String text) {
        int count = 0;
        boolean inside = false;
        for (int i = 0; i < text.length(); ++i) {
            boolean blank = Character.isWhitespace(text.charAt(i));
            if (!blank && !inside) ++count;
            inside = !blank;
        }
        return count;
    }

    public static String bytes(long bytes) {
        if (bytes >= 1_000_000_000L) return String.format(Locale.ROOT, "%.1f GB", bytes / 1e9);
        if (bytes >= 1_000_000L) return String.format(Locale.ROOT, "%d MB", Math.round(bytes / 1e6));
        return String.format(Locale.ROOT, "%d kB", Math.round(bytes / 1e3));
    }
}
