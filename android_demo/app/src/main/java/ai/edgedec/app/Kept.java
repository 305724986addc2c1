package ai.edgedec.app;

import ai.edgedec.core.Conversation;
import ai.edgedec.core.ConversationStore;
import ai.edgedec.core.Problem;
import ai.edgedec.core.Settings;
import android.content.Context;
import android.content.SharedPreferences;
import java.io.File;

/** What outlives the process: the settings, the model's name, the conversation, and the engine's state of it. */
final class Kept {
    private final SharedPreferences values;
    private final ConversationStore conversations;
    /** The engine's state; it may be missing. */
    final File session;
    private final File costs;

    Kept(Context context) {
        values = context.getSharedPreferences("chat", Context.MODE_PRIVATE);
        conversations = new ConversationStore(new File(context.getFilesDir(), "conversation.json"));
        session = new File(context.getFilesDir(), "session.edgedec");
        costs = new File(context.getFilesDir(), "costs");
    }

    /** The folder of measured pass costs. */
    File costs() {
        costs.mkdirs();
        return costs;
    }

    Settings settings() {
        return Settings.fromJson(values.getString("settings", ""));
    }

    void keep(Settings settings) {
        values.edit().putString("settings", settings.toJson()).apply();
    }

    String model() {
        return values.getString("model", "");
    }

    void keepModel(String name) {
        values.edit().putString("model", name).apply();
    }

    /** The conversation; null: there is none. */
    Conversation conversation() throws Problem {
        return conversations.load();
    }

    /** Saves a conversation, with the reply that is coming in, if one is. */
    void keep(Conversation conversation, Conversation.Message coming) throws Problem {
        Conversation all = conversation;
        if (coming != null && !coming.empty()) {
            all = new Conversation(conversation.model);
            for (Conversation.Message one : conversation.messages()) all.add(one);
            all.add(coming);
        }
        conversations.save(all);
    }

    void forgetConversation() {
        conversations.clear();
    }
}
