package ai.edgedec.app;

import android.app.Application;

/** Holds the chat, which outlives the activities: turning the phone interrupts nothing. */
public final class App extends Application {
    private Chat chat;

    @Override
    public void onCreate() {
        super.onCreate();
        chat = new Chat(this);
        Heat.watch(this, chat);
    }

    static Chat chat(android.content.Context context) {
        return ((App) context.getApplicationContext()).chat;
    }
}
