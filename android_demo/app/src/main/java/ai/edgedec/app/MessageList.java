package ai.edgedec.app;

import ai.edgedec.core.Conversation;
import ai.edgedec.core.Units;
import android.app.Activity;
import android.view.View;
import android.view.ViewGroup;
import android.widget.BaseAdapter;
import android.widget.TextView;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** The rows of a conversation; the reply that is coming in is the last one. */
final class MessageList extends BaseAdapter {
    private final Activity activity;
    private final Chat chat;
    /** Messages whose thinking part is open. */
    private final Set<Integer> open = new HashSet<>();

    MessageList(Activity activity, Chat chat) {
        this.activity = activity;
        this.chat = chat;
    }

    @Override
    public int getCount() {
        int count = chat.messages().size() + (chat.coming() == null ? 0 : 1);
        open.removeIf(at -> at >= count); // of a conversation that is gone
        return count;
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
        Conversation.Message message = at < all.size() ? all.get(at) : chat.coming();
        boolean user = message.role.equals(Conversation.USER);
        set(row, R.id.role, user ? activity.getString(R.string.you) : chat.model());
        fold(row, at, message);
        set(row, R.id.text, message.text);
        set(row, R.id.figures, message.figures);
        return row;
    }

    /** Shows the thinking part as one line with its length, which a tap opens and folds. */
    private void fold(View row, int at, Conversation.Message message) {
        boolean opened = open.contains(at);
        String thought = message.thought.trim();
        int words = Units.words(thought);
        boolean thinking = message == chat.coming() && message.text.isEmpty();
        String line = activity.getResources().getQuantityString(thinking ? R.plurals.thinking : R.plurals.thought, words, words);
        TextView head = set(row, R.id.fold, thought.isEmpty() ? "" : (opened ? "\u25be " : "\u25b8 ") + line);
        head.setContentDescription(line + ", " + activity.getString(opened ? R.string.opened : R.string.folded));
        head.setOnClickListener(view -> {
            if (!open.remove(at)) open.add(at);
            notifyDataSetChanged();
        });
        set(row, R.id.thought, opened ? thought : "");
    }

    /** Shows a text, or nothing where there is none. */
    private static TextView set(View row, int id, String text) {
        TextView view = (TextView) row.findViewById(id);
        if (!text.contentEquals(view.getText())) view.setText(text);
        view.setVisibility(text.isEmpty() ? View.GONE : View.VISIBLE);
        return view;
    }
}
