package ai.edgedec.app;

import ai.edgedec.core.BundleStore;
import ai.edgedec.core.Conversation;
import ai.edgedec.core.Problem;
import ai.edgedec.core.ReplyFigures;
import ai.edgedec.core.Settings;
import ai.edgedec.core.Units;
import ai.edgedec.engine.Engine;
import android.content.Context;
import android.os.Debug;
import android.os.Handler;
import android.os.Looper;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * The conversation, and what the engine does for it. Fields belong to the main thread, and listeners of the engine hand
 * over to it. The screen shows this and hears of changes.
 */
final class Chat implements Stream.Screen {
    /** Hears, on the main thread, that something changed. */
    interface Watcher {
        void changed();

        /** A fault for a dialog. */
        void failed(String text);

        /** A reply is complete. */
        void replied(String text);

        /** A question that got no reply goes back to where it was typed. */
        void returned(String question);
    }

    private final Context context;
    private final Handler main = new Handler(Looper.getMainLooper());
    private final EngineHost host = new EngineHost();
    private final Kept kept;
    private final Battery battery;

    final BundleStore store;
    private Watcher watcher;
    private Conversation conversation;
    private Settings settings;
    private String status = "";
    private String coming;
    private boolean busy;
    private volatile boolean stopping;
    private String lateFault;
    private String lateQuestion;

    Chat(Context context) {
        this.context = context;
        kept = new Kept(context);
        settings = kept.settings();
        store = new BundleStore(new File(context.getFilesDir(), "models"), context.getExternalFilesDir("models"));
        battery = new Battery(context);
        try {
            conversation = kept.conversation();
        } catch (Problem problem) {
            lateFault = problem.text();
        }
        if (conversation == null) conversation = new Conversation(kept.model());
        giveBack();
        if (hasModel()) open();
    }

    void watch(Watcher next) {
        watcher = next;
        if (next != null && lateFault != null) {
            next.failed(lateFault);
            lateFault = null;
        }
        if (next != null && lateQuestion != null) {
            next.returned(lateQuestion);
            lateQuestion = null;
        }
    }

    List<Conversation.Message> messages() {
        return conversation.messages();
    }

    /** The text of the reply that is coming in; null: none is. */
    String coming() {
        return coming;
    }

    String status() {
        return status;
    }

    String model() {
        return conversation.model;
    }

    Settings settings() {
        return settings;
    }

    boolean busy() {
        return busy;
    }

    boolean hasModel() {
        return !model().isEmpty() && store.folder(model()).isDirectory();
    }

    boolean mayGoOn() {
        List<Conversation.Message> all = messages();
        return !busy && hasModel() && !all.isEmpty() && all.get(all.size() - 1).cut;
    }

    /** Takes another model, with an empty conversation. */
    void use(String model) {
        stop();
        coming = null;
        conversation = new Conversation(model);
        kept.keepModel(model);
        forget();
        open();
    }

    void newChat() {
        stop();
        coming = null;
        conversation = new Conversation(model());
        forget();
        changed();
    }

    void change(Settings next) {
        boolean again = !next.opensLike(settings);
        settings = next;
        kept.keep(next);
        if (again && hasModel()) open();
    }

    void send(String text) {
        if (busy || text.isEmpty()) return;
        conversation.add(new Conversation.Message(Conversation.USER, text, "", false));
        keep();
        reply();
    }

    void stop() {
        stopping = true;
        host.stop();
    }

    /** Has the engine measure its passes again, after the reply in progress. */
    void measureAgain(String why) {
        main.post(() -> tell(why));
        host.run(Engine::measureAgain, this::fault, () -> {});
    }

    /** Keeps what a start after the end of the process needs: the conversation, and the engine's state. */
    void keepSession() {
        keep();
        if (messages().isEmpty()) return;
        // Without the file the next start reads the conversation again: slower, and nothing is lost.
        host.run(engine -> engine.save(kept.session.getPath()), why -> kept.session.delete(), () -> {});
    }

    private void open() {
        begin(context.getString(R.string.opening, model()));
        String folder = store.folder(model()).getPath();
        Engine.Options options = new Engine.Options();
        options.memory = settings.memory;
        options.context = settings.context;
        options.drafts = settings.drafts;
        options.runtime = "libonnxruntime.so";
        options.costFolder = folderFor("costs");
        options.notices = line -> {
            String text = new String(line, StandardCharsets.UTF_8);
            main.post(() -> tell(text));
        };
        boolean fresh = messages().isEmpty();
        String name = model();
        host.open(folder, options, engine -> {
            if (!fresh && kept.session.isFile()) restore(engine);
        }, why -> {
            if (why != null) fault(why);
            finish(why == null ? context.getString(R.string.ready, name) : "");
        });
    }

    private void restore(Engine opened) {
        try {
            opened.restore(kept.session.getPath());
        } catch (Engine.Failure unusable) {
            kept.session.delete();
            main.post(() -> tell(context.getString(R.string.not_restored, unusable.getMessage())));
        }
    }

    private void reply() {
        List<String> texts = new ArrayList<>();
        for (Conversation.Message one : messages()) {
            texts.add(one.role);
            texts.add(one.text);
        }
        Conversation of = conversation;
        int most = settings.maxTokens;
        long budget = settings.memory;
        coming = "";
        stopping = false;
        begin(context.getString(R.string.replying));
        Stream stream = new Stream(this);
        host.run(engine -> {
            int[] counts = new int[8];
            double[] seconds = new double[2];
            battery.start();
            double joules;
            try {
                engine.reply(texts, most, stream, counts, seconds);
            } finally {
                joules = battery.stop();
            }
            ReplyFigures figures = new ReplyFigures(counts, seconds);
            String line = figures.line(figures.tokens > 0 ? joules / figures.tokens : Double.NaN);
            String after = after(budget);
            main.post(() -> arrived(of, stream.text(), line, figures.cut(), after));
        }, why -> {
            fault(why);
            main.post(() -> arrived(of, stream.text(), "", true, "")); // what came before the fault stays
        }, () -> {
            fault(context.getString(R.string.not_open));
            main.post(() -> arrived(of, "", "", true, ""));
        });
    }

    @Override
    public void came(String text, boolean keep) {
        main.post(() -> show(text, keep));
    }

    @Override
    public void reading(long done, long total) {
        main.post(() -> tell(context.getString(R.string.reading, done, total)));
    }

    @Override
    public boolean stopping() {
        return stopping;
    }

    private void show(String text, boolean keep) {
        if (coming == null) return;
        coming = text;
        if (keep) keep();
        changed();
    }

    private void arrived(Conversation of, String text, String figures, boolean cut, String after) {
        coming = null;
        busy = false;
        status = after;
        if (of == conversation && !text.isEmpty()) {
            conversation.add(new Conversation.Message(Conversation.ASSISTANT, text, figures, cut));
            keep();
            if (watcher != null) watcher.replied(text);
        }
        if (of == conversation && text.isEmpty()) giveBack();
        changed();
    }

    /** Takes back a question that got no reply: a conversation alternates. */
    private void giveBack() {
        List<Conversation.Message> all = messages();
        if (all.isEmpty() || !all.get(all.size() - 1).role.equals(Conversation.USER)) return;
        String question = conversation.takeBack().text;
        keep();
        if (watcher != null) watcher.returned(question);
        else lateQuestion = question;
    }

    /** The line after a reply: memory against the budget, and the battery's current. */
    private String after(long budget) {
        String used = Units.bytes(Debug.getPss() * 1024);
        String line = budget > 0 ? context.getString(R.string.memory_of, used, Units.bytes(budget))
                : context.getString(R.string.memory_used, used);
        double amperes = battery.amperes();
        return Double.isNaN(amperes) ? line : line + " · " + context.getString(R.string.current, Math.round(amperes * 1000));
    }

    private void keep() {
        try {
            kept.keep(conversation, coming);
        } catch (Problem problem) {
            fault(problem.text());
        }
    }

    private void forget() {
        kept.forgetConversation();
        host.remove(kept.session);
    }

    private String folderFor(String name) {
        File folder = new File(context.getFilesDir(), name);
        folder.mkdirs();
        return folder.getPath();
    }

    private void begin(String line) {
        busy = true;
        tell(line);
    }

    private void finish(String line) {
        main.post(() -> {
            busy = false;
            coming = null;
            tell(line);
        });
    }

    private void tell(String line) {
        status = line;
        changed();
    }

    private void fault(String text) {
        main.post(() -> {
            if (watcher != null) watcher.failed(text);
            else lateFault = text;
        });
    }

    private void changed() {
        if (watcher != null) watcher.changed();
    }
}
