package ai.edgedec.app;

import android.content.Context;
import android.content.SharedPreferences;
import android.os.Debug;
import android.os.Handler;
import android.os.Looper;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import ai.edgedec.core.BundleStore;
import ai.edgedec.core.Conversation;
import ai.edgedec.core.ConversationStore;
import ai.edgedec.core.Problem;
import ai.edgedec.core.ReplyFigures;
import ai.edgedec.core.Settings;
import ai.edgedec.core.Units;
import ai.edgedec.engine.Engine;

/**
 * The conversation and the engine that replies. Fields belong to the main thread; the engine belongs to one worker, and
 * only stop() reaches it from elsewhere. The screen shows this and hears of changes.
 */
final class Chat {
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

    private static final long SAVE_EVERY_MS = 3000;

    private final Context context;
    private final Handler main = new Handler(Looper.getMainLooper());
    private final ExecutorService worker = Executors.newSingleThreadExecutor();
    private final SharedPreferences kept;
    private final ConversationStore saved;
    private final File session;
    private final Battery battery;
    private final Object engineLock = new Object();
    private Engine engine;

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
        kept = context.getSharedPreferences("chat", Context.MODE_PRIVATE);
        settings = Settings.fromJson(kept.getString("settings", ""));
        store = new BundleStore(new File(context.getFilesDir(), "models"), context.getExternalFilesDir("models"));
        saved = new ConversationStore(new File(context.getFilesDir(), "conversation.json"));
        session = new File(context.getFilesDir(), "session.edgedec");
        battery = new Battery(context);
        try {
            conversation = saved.load();
        } catch (Problem problem) {
            lateFault = problem.text();
        }
        if (conversation == null) conversation = new Conversation(kept.getString("model", ""));
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
        conversation = new Conversation(model);
        kept.edit().putString("model", model).apply();
        forget();
        open();
    }

    void newChat() {
        stop();
        worker.execute(() -> main.post(() -> {
            conversation = new Conversation(model());
            forget();
            changed();
        }));
    }

    void change(Settings next) {
        boolean again = !next.opensLike(settings);
        settings = next;
        kept.edit().putString("settings", next.toJson()).apply();
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
        synchronized (engineLock) {
            if (engine != null) engine.stop();
        }
    }

    /** Has the engine measure its passes again, after the reply in progress. */
    void measureAgain(String why) {
        main.post(() -> tell(why));
        worker.execute(() -> {
            if (engine == null) return;
            try {
                engine.measureAgain();
            } catch (Engine.Failure failure) {
                fault(failure);
            }
        });
    }

    /** Keeps what a start after the end of the process needs: the conversation, and the engine's state. */
    void keepSession() {
        keep();
        worker.execute(() -> {
            if (engine == null || conversation.messages().isEmpty()) return;
            try {
                engine.save(session.getPath());
            } catch (Engine.Failure lessSpeed) {
                session.delete(); // the next start reads the conversation again: slower, and nothing is lost
            }
        });
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
        worker.execute(() -> {
            close();
            try {
                System.loadLibrary("onnxruntime");
                System.loadLibrary("edgedec");
                Engine opened = new Engine(folder, options);
                synchronized (engineLock) {
                    engine = opened;
                }
                if (!fresh && session.isFile()) restore(opened);
                finish(context.getString(R.string.ready, name));
            } catch (Engine.Failure failure) {
                fault(failure);
                finish("");
            } catch (UnsatisfiedLinkError error) {
                fault(context.getString(R.string.native_missing, error.getMessage()));
                finish("");
            }
        });
    }

    private void restore(Engine opened) {
        try {
            opened.restore(session.getPath());
        } catch (Engine.Failure unusable) {
            session.delete();
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
        worker.execute(() -> {
            Stream stream = new Stream();
            if (engine == null) {
                main.post(() -> arrived(of, "", "", true, ""));
                return;
            }
            int[] counts = new int[8];
            double[] seconds = new double[2];
            battery.start();
            try {
                engine.reply(texts, most, stream, counts, seconds);
                double joules = battery.stop();
                ReplyFigures figures = new ReplyFigures(counts, seconds);
                String line = figures.line(figures.tokens > 0 ? joules / figures.tokens : Double.NaN);
                String after = after(budget);
                main.post(() -> arrived(of, stream.text(), line, figures.cut(), after));
            } catch (Engine.Failure failure) {
                battery.stop();
                fault(failure);
                String text = stream.text();
                // What came before the fault stays.
                main.post(() -> arrived(of, text, "", true, ""));
            }
        });
    }

    /** Collects a reply on the worker and shows it now and then. */
    private final class Stream implements Engine.Listener {
        private static final long SHOW_EVERY_NS = 50_000_000L;
        private final StringBuilder text = new StringBuilder();
        private long shown;
        private long keptAt = System.currentTimeMillis();

        @Override
        public boolean token(byte[] utf8, boolean drafted) {
            String all;
            synchronized (text) {
                text.append(new String(utf8, StandardCharsets.UTF_8));
                all = System.nanoTime() - shown < SHOW_EVERY_NS ? null : text.toString();
            }
            if (all != null) {
                shown = System.nanoTime();
                boolean keep = System.currentTimeMillis() - keptAt > SAVE_EVERY_MS;
                if (keep) keptAt = System.currentTimeMillis();
                main.post(() -> came(all, keep));
            }
            return stopping;
        }

        @Override
        public boolean prompt(long done, long total) {
            main.post(() -> tell(context.getString(R.string.reading, done, total)));
            return stopping;
        }

        String text() {
            synchronized (text) {
                return text.toString();
            }
        }
    }

    private void came(String text, boolean keep) {
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
        Conversation all = conversation;
        if (coming != null && !coming.isEmpty()) {
            all = new Conversation(conversation.model);
            for (Conversation.Message one : conversation.messages()) all.add(one);
            all.add(new Conversation.Message(Conversation.ASSISTANT, coming, "", true));
        }
        try {
            saved.save(all);
        } catch (Problem problem) {
            fault(problem.text());
        }
    }

    private void forget() {
        saved.clear();
        worker.execute(session::delete);
    }

    private void close() {
        Engine old;
        synchronized (engineLock) {
            old = engine;
            engine = null;
        }
        if (old != null) old.close();
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

    private void fault(Engine.Failure failure) {
        fault(failure.hint.isEmpty() ? failure.getMessage() : failure.getMessage() + " (" + failure.hint + ")");
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
