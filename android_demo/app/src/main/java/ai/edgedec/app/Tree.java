package ai.edgedec.app;

import ai.edgedec.core.BundleStore;
import ai.edgedec.core.FileList;
import ai.edgedec.core.Problem;
import android.content.ContentResolver;
import android.database.Cursor;
import android.net.Uri;
import android.provider.DocumentsContract.Document;
import android.provider.DocumentsContract;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.HashMap;
import java.util.Map;

/** A folder that the user chose in the system's file picker: its files by their names with '/' between folders. */
final class Tree implements BundleStore.Source {
    private static final int DEPTH = 5;
    private static final int MOST_FILES = 5000;

    private final ContentResolver resolver;
    private final Uri tree;
    private final Map<String, String> documents = new HashMap<>();

    Tree(ContentResolver resolver, Uri tree) throws Problem {
        this.resolver = resolver;
        this.tree = tree;
        try {
            list(DocumentsContract.getTreeDocumentId(tree), "", DEPTH);
        } catch (RuntimeException refused) {
            throw new Problem("the folder cannot be read: " + refused.getMessage(), "choose it again");
        }
    }

    /** The name of its list. */
    String listName() throws Problem {
        for (String name : new String[] {FileList.DEVICE, FileList.MANIFEST}) if (documents.containsKey(name)) return name;
        throw new Problem("this folder holds no model", "choose the folder that has " + FileList.DEVICE + " or " + FileList.MANIFEST);
    }

    @Override
    public InputStream open(String name, long from) throws IOException, Problem {
        String document = documents.get(name);
        if (document == null) throw new Problem("the folder lacks " + name, "export the model again");
        InputStream in;
        try {
            in = resolver.openInputStream(DocumentsContract.buildDocumentUriUsingTree(tree, document));
        } catch (FileNotFoundException | RuntimeException refused) {
            throw new Problem(name + " cannot be read: " + refused.getMessage(), "choose the folder again");
        }
        if (in == null) throw new Problem(name + " cannot be read", "choose the folder again");
        for (long left = from; left > 0;) {
            long skipped = in.skip(left);
            if (skipped <= 0) break; // shorter than before: its hash will fail
            left -= skipped;
        }
        return in;
    }

    private void list(String parent, String before, int depth) throws Problem {
        Uri children = DocumentsContract.buildChildDocumentsUriUsingTree(tree, parent);
        String[] columns = {Document.COLUMN_DOCUMENT_ID, Document.COLUMN_DISPLAY_NAME, Document.COLUMN_MIME_TYPE};
        try (Cursor rows = resolver.query(children, columns, null, null, null)) {
            while (rows != null && rows.moveToNext()) {
                String name = before + rows.getString(1);
                boolean folder = Document.MIME_TYPE_DIR.equals(rows.getString(2));
                if (!folder) documents.put(name, rows.getString(0));
                else if (depth > 1) list(rows.getString(0), name + "/", depth - 1);
                if (documents.size() > MOST_FILES) throw new Problem("this folder holds too much to be a model");
            }
        }
    }
}
