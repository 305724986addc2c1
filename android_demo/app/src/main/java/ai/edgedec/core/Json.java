package ai.edgedec.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and writes JSON as maps, lists, strings, doubles, longs and booleans. Texts come from files and the network, so
 * depth is bounded and every fault is a {@link Problem}.
 */
public final class Json {
    private static final int DEPTH = 32;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** The value of a text. */
    public static Object parse(String text) throws Problem {
        Json reader = new Json(text);
        Object value = reader.value(0);
        reader.blanks();
        if (reader.at != text.length()) throw reader.broken("something follows its end");
        return value;
    }

    /** The object of a text. */
    public static Map<String, Object> object(String text) throws Problem {
        return asObject(parse(text), "it");
    }

    @SuppressWarnings("unchecked")
    public static Map<String, Object> asObject(Object value, String where) throws Problem {
        if (value instanceof Map) return (Map<String, Object>) value;
        throw new Problem(where + " is not an object");
    }

    private Problem broken(String why) {
        return new Problem("not JSON: " + why + " at character " + at);
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) ++at;
    }

    private char peek() throws Problem {
        if (at >= text.length()) throw broken("it ends early");
        return text.charAt(at);
    }

    private void take(char wanted) throws Problem {
        if (peek() != wanted) throw broken("'" + wanted + "' is missing");
        ++at;
    }

    private Object value(int depth) throws Problem {
        if (depth > DEPTH) throw broken("it is nested too deeply");
        blanks();
        char c = peek();
        if (c == '{') return map(depth);
        if (c == '[') return list(depth);
        if (c == '"') return string();
        if (c == '-' || (c >= '0' && c <= '9')) return number();
        if (word("true")) return Boolean.TRUE;
        if (word("false")) return Boolean.FALSE;
        if (word("null")) return null;
        throw broken("a value is missing");
    }

    private boolean word(String word) {
        if (!text.startsWith(word, at)) return false;
        at += word.length();
        return true;
    }

    private Map<String, Object> map(int depth) throws Problem {
        Map<String, Object> found = new LinkedHashMap<>();
        take('{');
        blanks();
        if (peek() == '}') {
            ++at;
            return found;
        }
        for (;;) {
            blanks();
            String name = string();
            blanks();
            take(':');
            found.put(name, value(depth + 1));
            blanks();
            if (peek() == '}') {
                ++at;
                return found;
            }
            take(',');
        }
    }

    private List<Object> list(int depth) throws Problem {
        List<Object> found = new ArrayList<>();
        take('[');
        blanks();
        if (peek() == ']') {
            ++at;
            return found;
        }
        for (;;) {
            found.add(value(depth + 1));
            blanks();
            if (peek() == ']') {
                ++at;
                return found;
            }
            take(',');
        }
    }

    private String string() throws Problem {
        take('"');
        StringBuilder found = new StringBuilder();
        for (;;) {
            char c = peek();
            ++at;
            if (c == '"') return found.toString();
            if (c < ' ') throw broken("a control character is in a string");
            found.append(c == '\\' ? escaped() : c);
        }
    }

    private char escaped() throws Problem {
        char c = peek();
        ++at;
        int plain = "\"\\/bfnrt".indexOf(c);
        if (plain >= 0) return "\"\\/\b\f\n\r\t".charAt(plain);
        if (c != 'u' || at + 4 > text.length()) throw broken("an escape is unknown");
        int code = 0;
        for (int i = 0; i < 4; ++i) {
            int digit = Character.digit(text.charAt(at++), 16);
            if (digit < 0) throw broken("an escape is unknown");
            code = code * 16 + digit;
        }
        return (char) code;
    }

    private Object number() throws Problem {
        int first = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) ++at;
        String digits = text.substring(first, at);
        try {
            if (digits.matches("-?\\d+")) return Long.valueOf(digits);
            return Double.valueOf(digits);
        } catch (NumberFormatException error) {
            throw broken("'" + digits + "' is no number");
        }
    }

    /** The text of a value. */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map) {
            String before = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                quote(String.valueOf(entry.getKey()), out.append(before));
                write(entry.getValue(), out.append(':'));
                before = ",";
            }
            out.append(((Map<?, ?>) value).isEmpty() ? "{}" : "}");
        } else if (value instanceof List) {
            String before = "[";
            for (Object one : (List<?>) value) {
                write(one, out.append(before));
                before = ",";
            }
            out.append(((List<?>) value).isEmpty() ? "[]" : "]");
        } else if (value instanceof String) {
            quote((String) value, out);
        } else if (value instanceof Double && !Double.isFinite((Double) value)) {
            out.append("null");
        } else {
            out.append(value);
        }
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < text.length(); ++i) {
            char c = text.charAt(i);
            int special = "\"\\\b\f\n\r\t".indexOf(c);
            if (special >= 0) out.append('\\').append("\"\\bfnrt".charAt(special));
            else if (c < ' ' || Character.isSurrogate(c)) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        out.append('"');
    }
}
