package ai.edgedec.app;

import ai.edgedec.core.Conversation;
import ai.edgedec.core.Conversation.Message;
import ai.edgedec.engine.Engine;
import java.nio.charset.StandardCharsets;

/** Collects a reply on the engine's thread, and shows it some times a second: a screen for each token would be slow. */
final class Stream implements Engine.Listener {
    interface Screen {
        /** The reply so far. {@code keep}: it is time to save it. */
        void came(Message reply, boolean keep);

        void reading(long done, long total);

        boolean stopping();
    }

    private static final long SHOW_EVERY_NS = 50_000_000L;
    private static final long KEEP_EVERY_NS = 3_000_000_000L;

    private final Screen screen;
    private final StringBuilder text;
    private final StringBuilder thought;
    private long shown;
    private long kept = System.nanoTime();

    /** {@code before}: the reply as far as it goes on from. */
    Stream(Screen screen, Message before) {
        this.screen = screen;
        text = new StringBuilder(before.text);
        thought = new StringBuilder(before.thought);
    }

    @Override
    public boolean token(byte[] utf8, byte[] thinking, boolean drafted) {
        text.append(new String(utf8, StandardCharsets.UTF_8));
        thought.append(new String(thinking, StandardCharsets.UTF_8));
        long now = System.nanoTime();
        if (now - shown >= SHOW_EVERY_NS) {
            shown = now;
            boolean keep = now - kept >= KEEP_EVERY_NS;
            if (keep) kept = now;
            screen.came(reply("", true), keep);
        }
        return screen.stopping();
    }

    @Override
    public boolean prompt(long done, long total) {
        screen.reading(done, total);
        return screen.stopping();
    }

    /** The reply as far as it came. */
    Message reply(String figures, boolean cut) {
        return new Message(Conversation.ASSISTANT, text.toString(), thought.toString(), figures, cut);
    }
}
