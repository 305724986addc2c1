package ai.edgedec.app;

import ai.edgedec.core.Budget;
import ai.edgedec.core.BundleStore;
import ai.edgedec.core.Conversation;
import ai.edgedec.core.Problem;
import ai.edgedec.core.Settings;
import ai.edgedec.engine.Engine;
import android.content.Context;
import android.os.Handler;
import android.os.Looper;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * The conversation, and what the engine does for it. Fields belong to the main thread, and listeners of the engine hand
 * over to it. The screen shows this and hears of changes.
 */
final class Chat implements Stream.Screen {
    private static final Conversation.Message NOTHING = new Conversation.Message(Conversation.ASSISTANT, "", "", "", true);

    private final Context context;
    private final Handler main = new Handler(Looper.getMainLooper());
    private final EngineHost host = new EngineHost();
    private final Kept kept;
    private final Battery battery;

    final BundleStore store;
    private final Audience audience = new Audience();
    private Conversation conversation;
    private Settings settings;
    private String status = "";
    private Conversation.Message coming;
    private boolean busy;
    private volatile boolean stopping;
    /** Whether the engine can continue the last reply: it computed it, or has its state. */
    private boolean continues;

    Chat(Context context) {
        this.context = context;
        kept = new Kept(context);
        settings = kept.settings();
        store = new BundleStore(new File(context.getFilesDir(), "models"), context.getExternalFilesDir("models"));
        battery = new Battery(context);
        try {
            conversation = kept.conversation();
        } catch (Problem problem) {
            audience.failed(problem.text());
        }
        if (conversation == null) conversation = new Conversation(kept.model());
        giveBack();
        if (hasModel()) open();
    }

    void watch(Watcher next) {
        audience.watch(next);
    }

    List<Conversation.Message> messages() {
        return conversation.messages();
    }

    /** The reply that is coming in, as far as it is here; null: none is. */
    Conversation.Message coming() {
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

    /** Bytes that a model may take. */
    long budget() {
        return Budget.of(settings.memory, Phone.memory(context));
    }

    boolean busy() {
        return busy;
    }

    boolean hasModel() {
        return !model().isEmpty() && store.folder(model()).isDirectory();
    }

    boolean mayGoOn() {
        List<Conversation.Message> all = messages();
        return !busy && continues && hasModel() && !all.isEmpty() && all.get(all.size() - 1).cut;
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
        if (!again || !hasModel()) return;
        keepSession();
        open();
    }

    void send(String text) {
        if (busy || text.isEmpty()) return;
        conversation.add(new Conversation.Message(Conversation.USER, text, "", "", false));
        keep();
        List<String> texts = conversation.texts();
        int most = settings.maxTokens;
        compute(NOTHING, (engine, listener, counts, seconds) -> engine.reply(texts, most, listener, counts, seconds));
    }

    /** Continues the last reply, which was cut, as if it had not been. */
    void goOn() {
        if (!mayGoOn()) return;
        int most = settings.maxTokens;
        Conversation.Message before = conversation.takeBack();
        compute(before, (engine, listener, counts, seconds) -> engine.more(most, listener, counts, seconds));
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
        continues = false;
        String folder = store.folder(model()).getPath();
        Engine.Options options = new Engine.Options();
        options.memory = budget();
        options.context = settings.context;
        options.drafts = settings.drafts;
        options.runtime = "libonnxruntime.so";
        options.costFolder = kept.costs().getPath();
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
            main.post(() -> continues = true);
        } catch (Engine.Failure unusable) {
            kept.session.delete();
            main.post(() -> tell(context.getString(R.string.not_restored, unusable.getMessage())));
        }
    }

    /** Computes a reply, or the part of one that follows {@code before}. */
    private void compute(Conversation.Message before, Computation.Call call) {
        Conversation of = conversation;
        coming = before;
        stopping = false;
        begin(context.getString(R.string.replying));
        Stream stream = new Stream(this, before);
        Computation made = new Computation(context, battery, before.figures);
        host.run(engine -> {
            kept.session.delete(); // it would be that of an earlier reply
            made.run(engine, call, stream);
            main.post(() -> arrived(of, stream, made));
        }, why -> {
            fault(why);
            main.post(() -> arrived(of, stream, made)); // what came before the fault stays
        }, () -> {
            fault(context.getString(R.string.not_open));
            main.post(() -> arrived(of, stream, made));
        });
    }

    @Override
    public void came(Conversation.Message reply, boolean keep) {
        main.post(() -> show(reply, keep));
    }

    @Override
    public void reading(long done, long total) {
        main.post(() -> tell(context.getString(R.string.reading, done, total)));
    }

    @Override
    public boolean stopping() {
        return stopping;
    }

    private void show(Conversation.Message reply, boolean keep) {
        if (coming == null) return;
        coming = reply;
        if (keep) keep();
        changed();
    }

    private void arrived(Conversation of, Stream stream, Computation made) {
        Conversation.Message reply = stream.reply(made.figures, made.cut);
        coming = null;
        busy = false;
        status = made.after;
        if (of == conversation) continues = made.whole;
        if (of == conversation && !reply.empty()) {
            conversation.add(reply);
            keep();
            audience.replied(reply.text);
        }
        if (of == conversation && reply.empty()) giveBack();
        changed();
    }

    /** Takes back a question that got no reply: a conversation alternates. */
    private void giveBack() {
        List<Conversation.Message> all = messages();
        if (all.isEmpty() || !all.get(all.size() - 1).role.equals(Conversation.USER)) return;
        String question = conversation.takeBack().text;
        keep();
        audience.returned(question);
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
        main.post(() -> audience.failed(text));
    }

    private void changed() {
        audience.changed();
    }
}
