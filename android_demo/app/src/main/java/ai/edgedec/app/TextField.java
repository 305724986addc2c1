package ai.edgedec.app;

import ai.edgedec.core.Incoming;
import ai.edgedec.core.Problem;
import android.content.ClipDescription;
import android.content.ClipboardManager;
import android.content.Context;
import android.util.AttributeSet;
import android.view.DragEvent;
import android.widget.EditText;
import java.util.function.Consumer;

/** A field for text. A picture that is pasted or dropped is refused: the system would put its address there. */
public final class TextField extends EditText {
    /** Of the entry "Paste as plain text", which Android has since its version 6. */
    private static final int PASTE_PLAIN = 0x01020031;

    private Consumer<String> refused = text -> {};

    public TextField(Context context, AttributeSet attributes) {
        super(context, attributes);
    }

    /** {@code listener} hears why something was refused. */
    void onRefused(Consumer<String> listener) {
        refused = listener;
    }

    @Override
    public boolean onTextContextMenuItem(int id) {
        boolean pastes = id == android.R.id.paste || id == PASTE_PLAIN;
        ClipboardManager clipboard = (ClipboardManager) getContext().getSystemService(Context.CLIPBOARD_SERVICE);
        return pastes && refuses(clipboard.getPrimaryClipDescription()) || super.onTextContextMenuItem(id);
    }

    @Override
    public boolean onDragEvent(DragEvent event) {
        boolean drops = event.getAction() == DragEvent.ACTION_DROP;
        return (!drops || !refuses(event.getClipDescription())) && super.onDragEvent(event);
    }

    private boolean refuses(ClipDescription clip) {
        try {
            Incoming.check(clip == null ? null : clip.filterMimeTypes("*/*"));
            return false;
        } catch (Problem problem) {
            refused.accept(problem.text());
            return true;
        }
    }
}
