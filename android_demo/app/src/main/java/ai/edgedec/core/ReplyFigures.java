package ai.edgedec.core;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** The figures of a reply as the engine counted them, and the line that the screen shows. */
public final class ReplyFigures {
    public final int finish;
    public final int promptTokens;
    public final int reusedTokens;
    public final int tokens;
    public final int passes;
    public final int draftedTokens;
    public final int acceptedTokens;
    public final int droppedMessages;
    public final double firstTokenSeconds;
    public final double decodeSeconds;

    public static final int STOP = 1;
    public static final int LENGTH = 2;
    public static final int CONTEXT = 3;
    public static final int LOOP = 4;
    public static final int INTERRUPTED = 5;

    /** The integers and times of edgedec_result in its order. */
    public ReplyFigures(int[] counts, double[] seconds) {
        finish = counts[0];
        promptTokens = counts[1];
        reusedTokens = counts[2];
        tokens = counts[3];
        passes = counts[4];
        draftedTokens = counts[5];
        acceptedTokens = counts[6];
        droppedMessages = counts[7];
        firstTokenSeconds = seconds[0];
        decodeSeconds = seconds[1];
    }

    /** Tokens a second after the first one; 0: not known. */
    public double tokensPerSecond() {
        return tokens > 1 && decodeSeconds > 0 ? (tokens - 1) / decodeSeconds : 0;
    }

    /** Tokens that a pass over the model gave; 0: not known. */
    public double tokensPerPass() {
        return passes > 0 ? (double) tokens / passes : 0;
    }

    /** Whether the reply ended before its end. */
    public boolean cut() {
        return finish == LENGTH || finish == INTERRUPTED;
    }

    /** One line. {@code joules}: of a token; NaN: not known. */
    public String line(double joules) {
        List<String> parts = new ArrayList<>();
        if (tokensPerSecond() > 0) parts.add(number("%.1f tokens/s", tokensPerSecond()));
        if (tokensPerPass() > 0) parts.add(number("%.2f tokens/pass", tokensPerPass()));
        if (draftedTokens > 0) parts.add(acceptedTokens + "/" + draftedTokens + " drafts right");
        if (joules >= 0) parts.add(number("%.2f J/token (whole phone)", joules));
        if (droppedMessages > 0) parts.add(droppedMessages + " oldest messages left out");
        if (finish == CONTEXT) parts.add("the context is full");
        if (finish == LOOP) parts.add("cut: it repeated itself");
        return String.join(" · ", parts);
    }

    private static String number(String form, double value) {
        return String.format(Locale.ROOT, form, value);
    }
}
