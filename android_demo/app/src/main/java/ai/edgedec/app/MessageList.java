package ai.edgedec.app;

import ai.edgedec.core.Conversation;
import android.app.Activity;
import android.view.View;
import android.view.ViewGroup;
import android.widget.BaseAdapter;
import android.widget.TextView;
import java.util.List;

/** The rows of a conversation; the reply that is coming in is the last one. */
final class MessageList extends BaseAdapter {
    private final Activity activity;
    private final Chat chat;

    MessageList(Activity activity, Chat chat) {
        this.activity = activity;
        this.chat = chat;
    }

    @Override
    public int getCount() {
        return chat.messages().size() + (chat.coming() == null ? 0 : 1);
    }

    @Override
    public Object getItem(int at) {
        return at;
    }

    @Override
    public long getItemId(int at) {
        return at;
    }

    @Override
    public View getView(int at, View old, ViewGroup parent) {
        View row = old == null ? activity.getLayoutInflater().inflate(R.layout.message, parent, false) : old;
        List<Conversation.Message> all = chat.messages();
        Conversation.Message message = at < all.size() ? all.get(at)
                : new Conversation.Message(Conversation.ASSISTANT, String.valueOf(chat.coming()), "", false);
        boolean user = message.role.equals(Conversation.USER);
        set(row, R.id.role, user ? activity.getString(R.string.you) : chat.model());
        set(row, R.id.text, message.text);
        set(row, R.id.figures, message.figures);
        row.findViewById(R.id.figures).setVisibility(message.figures.isEmpty() ? View.GONE : View.VISIBLE);
        return row;
    }

    private static void set(View row, int id, String text) {
        TextView view = (TextView) row.findViewById(id);
        if (!text.contentEquals(view.getText())) view.setText(text);
    }
}
